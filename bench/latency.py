"""Latencies as HdrHistograms: three significant digits from a microsecond to hours, and mergeable by readers of the JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cqels_opt.errors import InputError

PERCENTILES = (50.0, 90.0, 99.0, 99.9)
_HIGHEST = 24 * 3_600_000_000  # microseconds: a day
_DIGITS = 3

Milliseconds = NDArray[np.float64]


def as_json(milliseconds: Iterable[float] | Milliseconds) -> dict[str, Any]:
    """Percentiles in milliseconds, the number of values, and their histogram (microseconds) in HdrHistogram's encoding."""
    try:
        from hdrh.histogram import HdrHistogram
    except ImportError as error:
        raise InputError("the benchmarks need hdrhistogram: pip install 'cqels-opt[bench]'") from error
    found = HdrHistogram(1, _HIGHEST, _DIGITS)
    micro = np.clip(np.rint(np.asarray(milliseconds, np.float64) * 1000), 1, _HIGHEST).astype(np.int64)
    for value, count in zip(*np.unique(micro, return_counts=True)):
        found.record_value(int(value), int(count))
    if not found.get_total_count():
        return {"count": 0}
    percentiles = {f"p{p:g}": found.get_value_at_percentile(p) / 1000 for p in PERCENTILES}
    return {
        **percentiles,
        "max": found.get_max_value() / 1000,
        "count": found.get_total_count(),
        "hdr": found.encode().decode("ascii"),
    }


def open_loop(service: Sequence[float], times: Sequence[NDArray[np.int64]]) -> list[Milliseconds]:
    """Milliseconds from each element's own time to the end of its micro-batch, if elements arrived in real time.

    ``service`` has the processing time of each micro-batch in milliseconds, ``times`` the times of its elements. A batch begins
    when its last element has arrived and the previous batch is done (Lindley's recursion), so that a slow contender accumulates
    delay and there is no coordinated omission (Tene 2013). Time before the first batch's end does not count.
    """
    done, found = float("-inf"), []
    for took, t in zip(service, times):
        if len(t):
            done = max(done, float(t.max())) + took
        found.append(done - t.astype(np.float64))
    return found
