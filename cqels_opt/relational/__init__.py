"""Joins of relations that are DataFrames, not SPARQL: specification, statistics, plans and state, without Spark.

Spark joins the rows (``spark/windowed_join.py``, ``spark/replanned_join.py``); :class:`cqels_opt.adaptive_join.AdaptiveJoin` combines both.
"""
