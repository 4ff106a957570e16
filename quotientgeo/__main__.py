"""``python -m quotientgeo``: the command line."""

from quotientgeo.cli.main import main

if __name__ == "__main__":
    main()
