"""What outlives a micro-batch: window slots, time slices and their indexes, results, compaction, the commit log and its lock."""
