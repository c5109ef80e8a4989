"""A run that is stopped after each batch and started again chooses the plans, with the estimates, of one that is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from local_run import Cut, Registered, register
from random_cases import make

from cqels_opt.errors import CheckpointError
from cqels_opt.operators.running.local import LocalSink
from cqels_opt.trace.records import TraceRecord


def told(records: Sequence[TraceRecord]) -> list[dict[str, Any]]:
    """Trace records without the clock."""
    return [{name: getattr(r, name) for name in TraceRecord.__slots__ if name != "ms"} for r in records]


def at_once(query: Registered, how: Cut) -> list[dict[str, Any]]:
    driver = query.driver(how)
    return told([r for number, rows in enumerate(query.chunks(how)) for r in driver.batch(number, rows)])


def stopped_each_time(query: Registered, how: Cut, folder: Path) -> list[dict[str, Any]]:
    records: list[TraceRecord] = []
    sink = LocalSink()
    for number, rows in enumerate(query.chunks(how)):
        records += query.driver(how, folder, sink=sink).batch(number, rows)
    return told(records)


@pytest.mark.parametrize("seed", range(24))
def test_a_restart_goes_on_as_if_nothing_had_happened(seed: int, tmp_path: Path) -> None:
    case = make(9_000 + seed)
    query = register(case.query(), case.world, tmp_path / "q", case.settings)
    how = Cut(["3", "7", "500ms"][seed % 3], ["adaptive", "static", "worst", "first"][seed % 4], 1 + seed % 2)
    assert stopped_each_time(query, how, tmp_path / "state") == at_once(query, how)


@pytest.mark.parametrize("damage", [b"", b"PK", None])
def test_a_damaged_file_is_said_to_be_one(damage: bytes | None, tmp_path: Path) -> None:
    case = make(9_002)
    query = register(case.query(), case.world, tmp_path / "q", case.settings)
    how, folder = Cut("7"), tmp_path / "state"
    driver = query.driver(how, folder)
    driver.batch(0, query.chunks(how)[0])
    (file,) = (folder / "knowledge").iterdir()
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage)
    with pytest.raises(CheckpointError, match=r"knowledge.*damaged"):
        query.driver(how, folder)
