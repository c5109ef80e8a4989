"""Physical operators over slots and indexes, Arrow and numpy in and out, and a runner of whole micro-batches that needs no Spark."""
