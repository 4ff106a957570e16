"""The ``quotientgeo`` command: thin covers of what the package does, one file for each command.

    main       collects the commands; a named error becomes one line on stderr and exit code 2
    options    options that several commands have, and exit code 3
    display    progress on stderr, tables on stdout
    sharpness, inspect, orbit, derive, demo

A command imports what it needs when it runs, so that ``--help`` is quick. Results go to stdout and nothing else does: with
``--json`` it can be piped. Exit codes: 0 done; 1 ``derive --check`` found a difference; 2 an error; 3 the work was done,
and what it found is not as it should be (a checkpoint without a value, a symmetry that does not hold).
"""
