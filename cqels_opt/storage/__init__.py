"""Files of checkpoints, stores and sinks: the only calls that write, flush, rename, delete and read them."""
