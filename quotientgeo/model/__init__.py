"""The symmetries of one model: which of its weights they move, whether they hold on it, and moving it along them.

    blocks          declarations: a pair of factors or a free translation, as views (legs) of named parameters
    architectures/  the rules that find blocks in a known model, and what to write for an unknown one
    graph           ``SymmetryGraph``: all blocks of a model, each entry in one place (``inventory``, ``sharing``, ``claims``,
                    ``coverage``)
    verify          random group elements on the model itself (``probe``, ``trial``, ``scales``; ``hints`` where one fails)
    stacks, shifts  blocks of one shape as one batched tensor, and translations with their canonical form; ``orbit``: moves
    checkpoint      folders read completely or not at all (``weights_file``, ``spellings``); ``saving`` writes them

Nothing here knows a metric: that is ``geometry``. The model's own weights are never changed; functions take and return tensors.
"""
