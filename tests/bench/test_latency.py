"""Latencies in an open loop, and their percentiles."""

from __future__ import annotations

import numpy as np
from hdrh.histogram import HdrHistogram

from cqels_opt.bench import latency


def test_who_keeps_up_waits_for_the_end_of_the_batch() -> None:
    first, second = latency.open_loop([100, 50], [np.array([0, 500, 1000]), np.array([1500, 2000])])
    assert first.tolist() == [1100, 600, 100]
    assert second.tolist() == [550, 50]


def test_delay_piles_up_for_who_does_not() -> None:
    """Each batch is one second of the stream and takes two: the tenth ends ten seconds late, whatever its own duration."""
    times = [np.array([1000 * (i + 1)]) for i in range(10)]
    waits = [float(w[0]) for w in latency.open_loop([2000.0] * 10, times)]
    assert waits == [2000.0 + 1000 * i for i in range(10)]


def test_batches_without_elements_take_no_time() -> None:
    assert [w.tolist() for w in latency.open_loop([5, 7, 5], [np.array([10]), np.array([], np.int64), np.array([20])])] == [
        [5],
        [],
        [5],
    ]


def test_percentiles_are_exact_to_three_digits_and_can_be_read_again() -> None:
    values = np.random.default_rng(1).lognormal(3, 1, 10_000)
    found = latency.as_json(values)
    for name, share in (("p50", 50), ("p99", 99), ("p99.9", 99.9)):
        exact = float(np.sort(values)[round(share * 100) - 1])
        assert abs(found[name] - exact) <= 0.002 * exact + 0.001
    again = HdrHistogram.decode(found["hdr"])
    assert again.get_total_count() == found["count"] == 10_000
    assert latency.as_json([]) == {"count": 0}
