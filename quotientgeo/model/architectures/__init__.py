"""Facts about architectures: where their attention keeps queries, keys, values and outputs. One small file each."""
