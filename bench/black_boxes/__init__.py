"""System X, the baseline of the CQELS report (§6): a stream engine and a triple store, each a black box for the other.

``split`` decomposes a query, ``relation`` is the static part as a table with a cache, ``over_time`` computes new rows. The
contender itself is :mod:`cqels_opt.bench.contenders.system_x`.
"""
