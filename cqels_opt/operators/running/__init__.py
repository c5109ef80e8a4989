"""The driver of micro-batches: from counts to commit, what changes between batches, what is kept, and a runner that needs no Spark."""
