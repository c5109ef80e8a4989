"""How far a run is behind its input: what the trace says of a replay, and of what has been read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from local_runs import Cut, Registered

from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.ingest import IngestReport
from cqels_opt.trace.records import TraceRecord

from .answer_folder_process import HOW, prepared


class Traced:
    """A trace that nobody reads."""

    digest = ""

    def restore(self, length: int, digest: str) -> None:
        """Nothing is kept."""

    def put(self, records: Sequence[TraceRecord]) -> int:
        return 0


@pytest.fixture
def query(tmp_path: Path) -> Registered:
    return prepared(tmp_path)


def lags(query: Registered, driver: Driver) -> list[tuple[int | None, int | None]]:
    records = [record for number, rows in enumerate(query.chunks(HOW)) for record in driver.batch(number, rows)]
    return [(record.lag.time, record.lag.waiting) for record in records]


def test_of_a_replay(query: Registered, tmp_path: Path) -> None:
    """An element each 40 ms, ten a batch; the frontier stops 1 ms short of the newest element, until the input has ended."""
    plan = query.replay(Cut("10"))

    def waiting(number: int, _: Sequence[IngestReport]) -> tuple[int | None, int | None]:
        return plan.newest, len(plan.chunks) - number - 1

    found = lags(query, query.driver(HOW, tmp_path / "state", trace=Traced(), waiting=waiting))
    assert found == [(400 * left + 1 if left else 0, left) for left in range(39, -1, -1)]


def test_of_what_has_been_read(query: Registered, tmp_path: Path) -> None:
    """Without knowledge of the rest, it is what the frontier holds back."""
    found = lags(query, query.driver(HOW, tmp_path / "state", trace=Traced()))
    assert found == [(1, None)] * 39 + [(0, None)]
