"""Facts about architectures: where their attention keeps queries, keys, values and outputs. One small file each.

Such a file declares three names, and ``registry`` finds it by the first:

    ATTENTION     the rule, a ``facts.SplitAttention``
    MODEL_TYPES   ``model_type`` in the config.json of those who share it
    UNUSED        patterns of tensors that their checkpoints carry where the class does not build them (a pooler, a head of
                  pre-training), so that no output depends on them
"""
