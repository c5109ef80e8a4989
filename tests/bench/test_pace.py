"""Latencies are counted from the intended time of an element, also while the reader is busy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from cqels_opt.bench.pace import Commits, Pace, files_by_batch
from cqels_opt.windows.batch_size import BatchSize
from cqels_opt.windows.replay import ReplaySource, cut

STREAM = "http://example.org/s"


def test_an_element_waits_from_its_intended_time_to_the_commit_that_covers_it() -> None:
    commits = Commits()
    commits.add(1_999, 101.5)
    commits.add(1_999, 102.0)  # adds nothing
    commits.add(3_000, 104.0)
    found = commits.latencies(np.array([1_000, 1_999, 2_000, 3_000, 3_001]), origin=100.0, first=1_000)
    assert np.allclose(found[:4], [1.5, 0.501, 3.0, 2.0])
    assert np.isinf(found[4])


def test_what_is_before_the_clock_comes_at_once_and_the_rest_when_it_is_due(tmp_path: Path) -> None:
    t = np.array([0, 40, 1_000, 1_050, 1_110])
    columns = {name: pa.array([f"<http://example.org/{name}{i}>" for i in range(len(t))]) for name in "spo"}
    parquet.write_table(pa.table({**columns, "t": pa.array(t)}), tmp_path / "stream.parquet")
    plan = cut([ReplaySource(STREAM, (tmp_path / "stream.parquet",))], tmp_path / "pieces", BatchSize(duration=100))
    pace = Pace(plan, tmp_path / "live", first=1_000)
    assert pace.times == [(0, 40), (1_000, 1_050), (1_110, 1_110)]
    pace.fill()
    assert [f.name for f in pace.folder.iterdir()] == [plan.chunks[0].file]
    pace.begin()
    pace.join()
    assert {f.name for f in pace.folder.iterdir()} == {chunk.file for chunk in plan.chunks}
    assert pace.greatest([chunk.file for chunk in plan.chunks[:2]]) == 1_050


def test_sparks_log_tells_which_files_a_batch_has_read(tmp_path: Path) -> None:
    log = tmp_path / "sources" / "0"
    log.mkdir(parents=True)

    def write(name: str, *entries: tuple[str, int]) -> None:
        lines = [json.dumps({"path": f"file:///live/{file}", "timestamp": 0, "batchId": batch}) for file, batch in entries]
        (log / name).write_text("\n".join(["v1", *lines]), encoding="utf-8")

    write("0", ("a", 0))
    write("1.compact", ("a", 0), ("b", 1))
    write("2", ("c", 2), ("d", 2))
    write(".2.crc", ("x", 9))
    assert files_by_batch(tmp_path) == {0: ["a"], 1: ["b"], 2: ["c", "d"]}
