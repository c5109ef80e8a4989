"""Static Linked Open Data: relations with indexes, the store of vertical partitions, and pre-computed sub-results."""
