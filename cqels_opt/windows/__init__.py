"""Windows over streams: validity intervals, evaluation instants, the frontier, slots, and replays cut into batches."""
