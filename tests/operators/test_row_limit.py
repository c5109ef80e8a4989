"""Limits on the rows of an operator: what is counted before it is built, and how little is built before an operator stops."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from cqels_opt.operators import row_limit
from cqels_opt.operators.interval_join import Indexed
from cqels_opt.operators.row_limit import PILOT, LimitedProbe, RowLimit, RowLimitError
from cqels_opt.operators.rows import CHUNK, Rows, pieces


def rows_of(**columns: np.ndarray) -> Rows:
    length = len(next(iter(columns.values())))
    return Rows(columns, np.zeros(length, np.int64), np.full(length, 10), np.ones(length, np.int64))


def probed(left: Rows, right: Rows, limit: RowLimit) -> int:
    """The rows of a probe until its limit stops it."""
    made = 0
    for rows in LimitedProbe(limit).join(left, Indexed.of_rows(right), ("x",)):
        made += len(rows)
        limit.add(len(rows))
    return made


@pytest.mark.parametrize("seed", range(20))
def test_pieces_have_all_rows_once_and_a_bounded_number_of_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fanout = rng.integers(0, 50, rng.integers(0, 200))
    first = int(rng.integers(1, 300)) if seed % 2 else None
    found = [*pieces(fanout, first)]
    assert np.concatenate([np.arange(len(fanout))[piece] for piece in found]).tolist() == [*range(len(fanout))]
    for number, piece in enumerate(found):
        most = CHUNK if number or first is None else first
        assert piece.stop - piece.start == 1 or int(fanout[piece].sum()) <= most


def test_a_probe_of_too_many_pairs_stops_after_a_pilot() -> None:
    """500 rows with 100 matches each: 50,000 rows are foreseen after the first thousand."""
    left = rows_of(x=np.arange(500) % 5)
    right = rows_of(x=np.repeat(np.arange(5), 100), y=np.arange(500))
    limit = RowLimit(20_000.0)
    with pytest.raises(RowLimitError):
        probed(left, right, limit)
    assert limit.exceeded == pytest.approx(50_000.0)
    built = RowLimit(inf)
    assert probed(left, right, built) == 50_000
    assert built.exceeded is None


def test_pairs_that_become_no_rows_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The right rows have expired but for a hundredth of them: there are many pairs and few rows."""
    monkeypatch.setattr(row_limit, "PILOT", 5_000)
    left = rows_of(x=np.arange(500) % 5)
    right = rows_of(x=np.repeat(np.arange(5), 100), y=np.arange(500))
    ends = np.where(right.columns["y"] % 100 == 7, 10, -5)
    right = Rows(right.columns, np.full(500, -9), ends, right.n)
    limit = RowLimit(20_000.0)
    assert probed(left, right, limit) == 500
    assert limit.exceeded is None


def test_few_pairs_are_built_in_one_piece() -> None:
    left = rows_of(x=np.arange(500) % 5)
    right = rows_of(x=np.repeat(np.arange(5), 100), y=np.arange(500))
    parts = [len(rows) for rows in LimitedProbe(RowLimit(60_000.0)).join(left, Indexed.of_rows(right), ("x",))]
    assert parts == [50_000]
    parts = [len(rows) for rows in LimitedProbe(RowLimit(20_000.0)).join(left, Indexed.of_rows(right), ("x",))]
    assert parts[0] <= PILOT and sum(parts) == 50_000


def test_rows_of_several_indexes_add_up() -> None:
    left = rows_of(x=np.arange(100))
    right = rows_of(x=np.arange(100), y=np.arange(100))
    limit = RowLimit(250.0)
    assert probed(left, right, limit) == probed(left, right, limit) == 100
    with pytest.raises(RowLimitError):
        probed(left, right, limit)
    assert limit.exceeded == pytest.approx(300.0)
