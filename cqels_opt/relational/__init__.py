"""Joins of relations that are DataFrames and not SPARQL: what is joined, its statistics, its plans, its state. No Spark here.

The rows are joined by Spark (``spark/relational.py``); :class:`cqels_opt.adaptive_join.AdaptiveJoin` puts both together.
"""
