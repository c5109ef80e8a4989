"""What executors do with a micro-batch: elements in and slots out, then deltas in and answers out."""
