"""Joins of relations that are DataFrames, not SPARQL: specification, statistics, plans and state, without Spark.

Spark joins the rows (``spark/relational.py``); :class:`cqels_opt.adaptive_join.AdaptiveJoin` combines both.
"""
