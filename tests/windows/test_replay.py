"""Replays cut into chunks: nothing lost, nothing re-ordered within a file, whole elements, lateness as defined, restarts."""

from __future__ import annotations

import heapq
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cqels_opt.errors import CheckpointError, DataError, InputError, for_the_command_line
from cqels_opt.runtime.file_streams import finite_frontier
from cqels_opt.windows import replay
from cqels_opt.windows.batch_size import BatchSize
from cqels_opt.windows.element_rows import ELEMENT_ROWS
from cqels_opt.windows.replay import ReplayPlan, ReplaySource, cut

Element = tuple[int, int]  # time, number of rows


def write(path: Path, elements: list[Element]) -> Path:
    """A file whose elements of several rows are graphs."""
    with path.open("w") as file:
        for number, (t, rows) in enumerate(elements):
            for row in range(rows):
                record: dict[str, Any] = {"s": f"<e:{number}>", "p": "<e:p>", "o": f"<e:{row}>", "t": t}
                if rows > 1:
                    record["g"] = f"<g:{number}>"
                file.write(json.dumps(record) + "\n")
    return path


def chunks(plan: ReplayPlan) -> list[list[dict[str, Any]]]:
    return [pq.read_table(plan.path(number)).to_pylist() for number in range(len(plan.chunks))]


def expected(files: list[list[Element]], lateness: int) -> list[tuple[int, int, bool]]:
    """(file, element, late) in the order of the replay, straight from the definitions."""
    heads = [(elements[0][0], number, 0) for number, elements in enumerate(files) if elements]
    heapq.heapify(heads)
    greatest: dict[int, int] = {}
    order = []
    while heads:
        t, number, place = heapq.heappop(heads)
        order.append((number, place, number in greatest and t <= greatest[number] - 1 - lateness))
        greatest[number] = max(t, greatest.get(number, t))
        if place + 1 < len(files[number]):
            heapq.heappush(heads, (files[number][place + 1][0], number, place + 1))
    return order


FILES = st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 3)), max_size=25), min_size=1, max_size=4)
FIRST = st.sampled_from([0, 0, 7, 50])
BATCHES = st.one_of(
    st.builds(BatchSize, count=st.integers(1, 30), first=FIRST), st.builds(BatchSize, duration=st.integers(1, 20), first=FIRST)
)


@pytest.mark.long
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=FILES, batch=BATCHES, lateness=st.integers(0, 5), block=st.integers(1, 500))
def test_chunks_are_the_merged_elements(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    files: list[list[Element]],
    batch: BatchSize,
    lateness: int,
    block: int,
) -> None:
    folder = tmp_path_factory.mktemp("replay")
    monkeypatch.setattr("cqels_opt.rdf.lines.BLOCK", block)
    paths = [write(folder / f"{number}.ndjson", elements) for number, elements in enumerate(files)]
    # the third file continues the first one's stream
    streams = [f"http://e/{number % 2}" for number in range(len(files))]
    plan = cut([ReplaySource(s, (p,)) for s, p in zip(streams, paths)], folder / "cut", batch, lateness)
    written = chunks(plan)

    place = {(p.stream, p.partition): number for number, p in enumerate(plan.partitions)}
    elements: list[tuple[int, int, bool]] = []
    for rows in written:
        fresh = True
        for row in rows:
            source = place[row["stream"], row["partition"]]
            assert plan.streams[row["stream"]] == streams[source]
            assert row["s"] == f"<e:{row['offset']}>"
            assert row["t"] == files[source][row["offset"]][0]
            if fresh or elements[-1][:2] != (source, row["offset"]):
                elements.append((source, row["offset"], row["late"]))
            fresh = False
    assert elements == expected(files, lateness)  # so no element is in two chunks, and the order is that of the files
    assert plan.rows == sum(map(len, written)) == sum(rows for elements in files for _, rows in elements)
    assert plan.late == sum(late for *_, late in elements)
    assert plan.elements == len(elements)

    sizes = [len({(r["stream"], r["partition"], r["offset"]) for r in rows}) for rows in written]
    assert sizes == [chunk.elements for chunk in plan.chunks]
    if batch.count:
        most = [max(batch.count, batch.first), *[batch.count] * len(sizes)]
        assert all(size == full for size, full in zip(sizes[:-1], most))
        assert not sizes or 0 < sizes[-1] <= most[len(sizes) - 1]
    elif written:
        start, first = written[0][0]["t"], max(batch.duration, batch.first)
        reached = defaultdict(lambda: start)
        spans = []
        for rows in written:
            span = set()
            for row in rows:
                source = place[row["stream"], row["partition"]]
                reached[source] = max(reached[source], row["t"])
                after = reached[source] - start
                span.add(0 if after < first else 1 + (after - first) // batch.duration)
            assert len(span) == 1
            spans.append(span.pop())
        assert spans == sorted(set(spans))
    # no element that is not late comes at or before the frontier of an earlier chunk; at the end all is final
    found = frontiers(plan, lateness)
    assert found == sorted(found)
    for frontier, rows in zip(found, written[1:]):
        assert all(row["late"] or row["t"] > frontier for row in rows)
    assert not found or found[-1] == max(t for elements in files for t, _ in elements)


def frontiers(plan: ReplayPlan, lateness: int) -> list[int]:
    """The frontier of a run after each chunk."""
    frontier, found = finite_frontier(plan, lateness, eager=False), []
    for rows in chunks(plan):
        for row in rows:
            frontier.seen(row["partition"], plan.streams[row["stream"]], row["t"], row["offset"])
        found.append(frontier.advance())
    return found


def test_two_streams_are_merged_by_time(tmp_path: Path) -> None:
    a = write(tmp_path / "a.ndjson", [(1, 1), (3, 1), (2, 1)])
    b = write(tmp_path / "b.ndjson", [(2, 1), (3, 1)])
    plan = cut([ReplaySource("http://e/a", (a,)), ReplaySource("http://e/b", (b,))], tmp_path / "cut", BatchSize(count=2))
    written = chunks(plan)
    order = [[("ab"[r["stream"]], r["t"], r["late"]) for r in rows] for rows in written]
    assert order == [[("a", 1, False), ("b", 2, False)], [("a", 3, False), ("a", 2, True)], [("b", 3, False)]]
    assert pq.read_schema(plan.path(0)).equals(ELEMENT_ROWS)
    assert [chunk.greatest for chunk in plan.chunks] == [{0: 1, 1: 2}, {0: 3}, {1: 3}]
    assert frontiers(plan, 0) == [0, 1, 3]
    assert [p.late for p in plan.partitions] == [1, 0]


def test_spark_sees_the_chunks_in_order(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ndjson", [(t, 1) for t in range(12)])
    plan = cut([ReplaySource("http://e/a", (path,))], tmp_path / "cut", BatchSize(count=1))
    files = sorted(plan.chunk_folder.iterdir(), key=lambda file: file.stat().st_mtime_ns)
    assert [file.name.split(".")[0] for file in files] == [f"chunk-{k:08}" for k in range(12)]
    assert len({file.stat().st_mtime_ns for file in files}) == 12


def test_a_large_chunk_can_be_split(tmp_path: Path) -> None:
    """Between its elements: a task sees all of an element's graph."""
    path = write(tmp_path / "a.ndjson", [(1, 40_000), (2, 70_000), *((3, 1) for _ in range(40_000))])
    plan = cut([ReplaySource("http://e/a", (path,))], tmp_path / "cut", BatchSize(duration=10))
    assert [chunk.rows for chunk in plan.chunks] == [150_000]
    groups = pq.ParquetFile(plan.path(0)).metadata
    assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [110_000, 40_000]


def test_empty_spans_have_no_chunk(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ndjson", [(5, 1), (14, 1), (15, 1), (1000, 1)])
    plan = cut([ReplaySource("http://e/a", (path,))], tmp_path / "cut", BatchSize(duration=10))
    assert [[row["t"] for row in rows] for rows in chunks(plan)] == [[5, 14], [15], [1000]]


def test_a_later_file_of_a_stream_does_not_hold_the_frontier_back(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", [(1, 1), (5, 1)]), write(tmp_path / "b", [(20, 1)])
    first, second = first.rename(tmp_path / "a.ndjson"), second.rename(tmp_path / "b.ndjson")
    plan = cut([ReplaySource("http://e/a", (first, second))], tmp_path / "cut", BatchSize(count=1), 2)
    assert frontiers(plan, 2) == [1 - 3, 20 - 3, 20]


def test_nothing_to_replay(tmp_path: Path) -> None:
    plan = cut([ReplaySource("http://e/a", (write(tmp_path / "a.ndjson", []),))], tmp_path / "cut")
    assert plan.chunks == ()
    assert plan.chunk_folder.is_dir()
    assert cut([ReplaySource("http://e/a", (tmp_path / "a.ndjson",))], tmp_path / "cut") == plan


def bad_file(tmp_path: Path) -> Path:
    path = write(tmp_path / "a.ndjson", [(t, 1) for t in range(6)])
    lines = path.read_text().splitlines()
    lines[2], lines[5] = "{", "oops"
    path.write_text("\n".join(lines))
    return path


def test_refused_lines_are_kept_with_their_reasons(tmp_path: Path) -> None:
    path = bad_file(tmp_path)
    plan = cut([ReplaySource("http://e/a", (path,))], tmp_path / "cut", BatchSize(count=2), on_error="skip")
    assert [plan.rejected_in(number) for number in range(len(plan.chunks))] == [{}, {"http://e/a": 2}]
    assert plan.rejected == 2
    records = [json.loads(line) for line in plan.rejected_file.read_text().splitlines()]
    assert [(Path(r["file"]).name, r["line"]) for r in records] == [("a.ndjson", 3), ("a.ndjson", 6)]
    assert all("JSON" in record["reason"] for record in records)


def test_a_bad_line_fails_and_the_next_cut_begins_anew(tmp_path: Path) -> None:
    path = bad_file(tmp_path)
    with pytest.raises(DataError, match=r"a\.ndjson:3: "):
        cut([ReplaySource("http://e/a", (path,))], tmp_path / "cut", BatchSize(count=1))
    (tmp_path / "cut/chunks/chunk-00000099.parquet").write_text("left by a process that was killed")
    write(path, [(1, 1)])
    plan = cut([ReplaySource("http://e/a", (path,))], tmp_path / "cut", BatchSize(count=1))
    assert [file.name.split(".")[0] for file in plan.chunk_folder.iterdir()] == ["chunk-00000000"]


def test_a_restart_uses_what_was_cut(tmp_path: Path) -> None:
    sources = [ReplaySource("http://e/a", (write(tmp_path / "a.ndjson", [(t, 2) for t in range(9)]),))]
    first = cut(sources, tmp_path / "cut", BatchSize(count=2))
    before = [file.stat().st_mtime_ns for file in sorted(first.chunk_folder.iterdir())]
    assert cut(sources, tmp_path / "cut", BatchSize(count=2)) == first
    write(tmp_path / "a.ndjson", [(t, 2) for t in range(9)])  # the same bytes, written again
    assert cut(sources, tmp_path / "cut", BatchSize(count=2), on_error="skip") == first
    assert [file.stat().st_mtime_ns for file in sorted(first.chunk_folder.iterdir())] == before


def test_a_restart_with_something_else_names_it(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ndjson", [(1, 1), (2, 1)])
    other = write(tmp_path / "b.ndjson", [(1, 1), (3, 1)])
    sources = [ReplaySource("http://e/a", (path,))]
    plan = cut(sources, tmp_path / "cut")
    for complaint, args in {
        "--batch 5000, not 7": (sources, tmp_path / "cut", BatchSize(count=7)),
        "--lateness 0ms, not 5ms": (sources, tmp_path / "cut", BatchSize(count=5000), 5),
        "from streams http://e/a, not http://e/b": ([ReplaySource("http://e/b", (path,))], tmp_path / "cut"),
        "b.ndjson is not the file": ([ReplaySource("http://e/a", (other,))], tmp_path / "cut"),
        "1 files, not 2": ([ReplaySource("http://e/a", (path, other))], tmp_path / "cut"),
    }.items():
        with for_the_command_line(), pytest.raises(CheckpointError, match=complaint):
            cut(*args)  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="was made with batch=5000, not 7; give what the checkpoint was made with"):
        cut(sources, tmp_path / "cut", BatchSize(count=7))
    write(path, [(1, 1), (3, 1)])
    with pytest.raises(CheckpointError, match="not the file"):
        cut(sources, tmp_path / "cut")
    write(path, [(1, 1), (2, 1)])
    plan.path(0).unlink()
    with pytest.raises(CheckpointError, match=r"chunk-00000000\.[0-9a-f]{32}\.parquet is missing"):
        cut(sources, tmp_path / "cut")
    (tmp_path / "cut/replay.json").write_text("{")
    with pytest.raises(CheckpointError, match="damaged"):
        cut(sources, tmp_path / "cut")


def test_what_is_no_batch_size() -> None:
    for count, duration in ((0, 0), (-1, 0), (5, 5)):
        with pytest.raises(InputError, match="--batch"):
            BatchSize(count, duration)
    assert str(BatchSize(duration=500)) == "500ms"
    assert str(BatchSize(count=5, first=20)) == "5 after 20"


def test_a_replay_of_many_files_raises_the_limit_of_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(replay.resource, "getrlimit", lambda _: (1_024, 4_096))
    monkeypatch.setattr(replay.resource, "setrlimit", lambda _, limit: limits.append(limit))
    replay._allow_open_files(500)
    replay._allow_open_files(2_000)
    assert limits == [(2_256, 4_096)]
    with pytest.raises(InputError, match=r"its 5,000 files at once, and this process may open 4,096: raise `ulimit -n`"):
        replay._allow_open_files(5_000)
