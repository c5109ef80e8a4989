"""System X, the baseline of the CQELS report (§6): a stream engine and a triple store that know nothing of each other.

``split`` takes a query apart, ``relation`` has the static part as a table behind a cache, ``over_time`` what is new. The contender
itself is :mod:`cqels_opt.bench.contenders.system_x`.
"""
