"""The study of long windows: its stream is the same for any sizes of requests."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cqels_opt.bench import long_window


def test_the_stream_does_not_hang_on_how_it_is_cut() -> None:
    whole = long_window.elements(0, 300)
    parts = pa.concat_tables([long_window.elements(0, 40), long_window.elements(40, 260)])
    assert whole.combine_chunks().equals(parts.combine_chunks())
    assert whole.column("t")[-1].as_py() - long_window.START == 299 * 1000 // long_window.RATE


def test_places_and_people_are_met_evenly() -> None:
    rows = long_window.elements(5_000_000, 20_000)
    _, people = np.unique(rows.column("s").to_numpy(zero_copy_only=False).astype(str), return_counts=True)
    assert people.max() < 10
    assert len(people) > 0.17 * long_window.PEOPLE  # the expected number of distinct values of 20,000 draws from 100,000
