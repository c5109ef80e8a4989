"""Windows on time slices: by definition at every instant, whatever was merged when; what is mapped, probed and held, in numbers."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from local_runs import most_merged

from cqels_opt.lod import index as index_room
from cqels_opt.operators.blocks import Block, PatternOccurrence, Static
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.evaluation_step import EvaluationStep, StepFiles
from cqels_opt.operators.rows import Rows, concat, empty
from cqels_opt.operators.term_table import Page, write_page
from cqels_opt.planner.background_jobs import Start, at_once
from cqels_opt.query.algebra import Window
from cqels_opt.state import window_state
from cqels_opt.state.compaction import Compaction, MergeResult, MergeTask, merge_each
from cqels_opt.state.slot_indexes import INDEX, write_slot_index
from cqels_opt.state.sorted_runs import SortedRun, relation_of
from cqels_opt.state.time_slices import MOST_VERIFIED, Layout, indexes_on, layouts, read_time_slice, write_time_slice
from cqels_opt.state.window_state import WindowState
from cqels_opt.storage.columns import write_columns
from cqels_opt.storage.compaction_policy import CompactionPolicy
from cqels_opt.windows.binding_slots import Shape, SlotFile
from cqels_opt.windows.instants import Policy, Report
from cqels_opt.windows.kinds import kind_of

S = "<http://ex.org/S>"
WINDOWS = [
    Window("w", S, "range", width=7),
    Window("w", S, "now"),
    Window("w", S, "all"),
    Window("w", S, "grid", width=6, slide=4),
    Window("w", S, "closed-open", width=3, slide=5),
    Window("w", S, "past", width=9, slide=4),
]
"""One has gaps, in which elements are in no window."""


def occurrence(window: Window, width: int, distinct: bool, t0: int = 0) -> PatternOccurrence:
    shape = Shape(S, (0, 0, 0), tuple(range(width)) + (-1,) * (3 - width))  # type: ignore[arg-type]
    return PatternOccurrence("w", window, t0, shape, tuple("abc"[:width]), distinct)


def program(*occurrences: PatternOccurrence, static: Sequence[str] = ("a", "b")) -> CompiledProgram:
    statics = (Static("s", tuple(static), "nowhere", 0),)
    block = Block("b", occurrences, statics, (), ())
    return CompiledProgram("q", (), (block,), None, (), Report(Policy()), "istream", "", 0)  # type: ignore[arg-type]


def run_merges(tasks: Sequence[MergeTask]) -> list[MergeResult]:
    return list(merge_each(tasks))


class Stream:
    """A stream in a folder: its slots, what merges have made of them, and its rows for brute force."""

    def __init__(self, folder: Path, of: PatternOccurrence, tiers: CompactionPolicy, start: Start = at_once) -> None:
        self.folder, self.of, self.files = folder, of, list[SlotFile]()
        self.merging = Compaction(folder, [program(of)], tiers, run_merges, start)
        self.rows: list[tuple[int, tuple[int, ...]]] = []
        self.frontier, self.batch = -1000, 0
        self.indexed: Callable[[], bool] = lambda: False  # whether the next slot has an index file
        self.tasks: Callable[[], int] = lambda: 1  # of the next batch

    def put(self, rows: Sequence[tuple[int, tuple[int, ...]]], upto: int) -> EvaluationStep:
        """A batch: its rows that are not late, in a slot per task; the step to ``upto``."""
        fresh = [row for row in rows if row[0] > self.frontier]
        tasks = self.tasks()
        for task in range(tasks):
            self._write(sorted(fresh[task::tasks]), f"slots/slot-{self.batch}-{task}.arrow")
        self.rows += fresh
        after, self.frontier, self.batch = self.frontier, max(upto, self.frontier), self.batch + 1
        none = np.empty(0, np.int64)
        return EvaluationStep(str(self.folder), "r", self.batch, after, self.frontier, none, StepFiles(self.files), {})

    def _write(self, rows: Sequence[tuple[int, tuple[int, ...]]], path: str) -> None:
        if not rows:
            return
        columns = {"t": [t for t, _ in rows], "e": range(len(rows))}
        columns |= {f"v{i}": [values[i] for _, values in rows] for i in range(self.of.shape.width)}
        stored = {name: np.array(column, np.int64) for name, column in columns.items()}
        write_columns(self.folder / path, stored)
        self.files.append(SlotFile("slot", path, S, self.of.shape.key, len(rows), rows[0][0], rows[-1][0]))
        if self.indexed():
            keys = [(i,) for i in range(self.of.shape.width)][:1]
            self.files.append(write_slot_index(self.folder, self.files[-1], stored, keys))

    def commit(self) -> None:
        self.files = self.merging.absorb_finished(self.files, self.batch, self.frontier)

    def valid_at(self, instant: int, known: int) -> Counter[tuple[int, ...]]:
        """What the window has at an instant, of elements with t <= known."""
        found: Counter[tuple[int, ...]] = Counter()
        start, end = kind_of(self.of.window).validity(np.array([t for t, _ in self.rows], np.int64), self.of.t0)
        for (t, values), inside in zip(self.rows, (start <= instant) & (instant < end)):
            if t <= known and inside:
                found[values] = 1 if self.of.distinct else found[values] + 1
        return found


def at(rows: Rows, instant: int) -> Counter[tuple[int, ...]]:
    alive = rows.take((rows.start <= instant) & (instant < rows.end))
    return (
        Counter(zip(*(c.tolist() for c in alive.columns.values())))
        if alive.columns
        else Counter({(): len(alive)} if len(alive) else {})
    )


def check(stream: Stream, content: WindowState, step: EvaluationStep) -> None:
    """Scans and probes, of the old part and of both, at every instant that the step can ask about."""
    content.advance(step)
    check_delta(content)
    width = stream.of.shape.width
    some = list({values for _, values in stream.rows} | {(99,) * width})
    columns = {v: np.array([values[i] for values in some], np.int64) for i, v in enumerate(stream.of.variables)}
    low, high = np.full(len(some), step.after + 1), np.full(len(some), step.upto + 30)
    probe = Rows(columns, low, high, np.ones(len(some), np.int64))
    for with_new in (False, True):
        known = step.upto if with_new else step.after
        sides = content.indexed(with_new)
        scanned = content.rows(with_new)
        expected = {instant: stream.valid_at(instant, known) for instant in range(step.after + 1, step.upto + 12)}
        for on in ([], ["a"], ["b"], ["b", "a"], ["a", "b"]):
            if set(on) <= set(columns):
                left = probe if set(on) == set(columns) else probe.only(on)
                left = left if set(on) == set(columns) or on else Rows({}, low[:1], high[:1], np.ones(1, np.int64))
                left = _once(left)
                found = concat([empty(stream.of.variables), *(rows for side in sides for rows in side.probe(left, on))])
                found = Rows({v: found.columns[v] for v in stream.of.variables}, found.start, found.end, found.n)
                for instant in expected:
                    assert at(found, instant) == expected[instant], (on, instant)
        for instant in expected:
            assert at(scanned, instant) == expected[instant], instant


def check_delta(content: WindowState) -> None:
    """Shares of the new rows, and rows at some places and at the others, are all new rows once, whether these are few or many."""
    for most in (window_state.COPIED, 0):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(window_state, "COPIED", most)
            size = content.new_places
            shares = [content.new_between(first, last) for first, last in pairwise([0, size // 3, size // 2, size])]
            by_place = [content.new_at(np.arange(first, size, 2)) for first in (0, 1)]
            assert intervals(concat(shares)) == intervals(concat(by_place)) == intervals(content.new)


def intervals(rows: Rows) -> Counter[tuple[int, ...]]:
    return Counter(zip(*(column.tolist() for column in (*rows.columns.values(), rows.start, rows.end))))


def _once(rows: Rows) -> Rows:
    """Equal probes once."""
    if not rows.columns:
        return rows
    keys = np.unique(np.stack(list(rows.columns.values())), axis=1, return_index=True)[1]
    return rows.take(keys)


CASES = st.tuples(
    st.integers(0, 1 << 30), st.sampled_from(WINDOWS), st.integers(0, 2), st.booleans(), st.sampled_from([-3, 0, 5])
)


@pytest.mark.long
@given(CASES)
@settings(max_examples=80, deadline=None)
def test_a_window_by_definition_whatever_was_merged(case: tuple[int, Window, int, bool, int]) -> None:
    """Merges end at once, late, or never; a worker continues, starts without state, or is told of an earlier state again.

    Half of the slots have an index file, also those of which only a part belongs to the step. A batch has a slot or three, in any order.
    """
    seed, window, width, distinct, t0 = case
    rng = random.Random(seed)
    waiting: list[Callable[[], None]] = []
    start: Start = at_once if rng.random() < 0.5 else waiting.append
    of = occurrence(window, width, distinct, t0)
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "slots").mkdir()
        stream = Stream(Path(name), of, CompactionPolicy(rng.choice([1, 2, 3]), rng.choice([4, 100]), rng.choice([2, 4])), start)
        stream.indexed, stream.tasks = lambda: rng.random() < 0.5, lambda: rng.choice([1, 3])
        content, t = WindowState(of), rng.choice([-6, 0])
        for _ in range(12):
            t += rng.randint(0, 4)
            rows = [
                (t + rng.randint(-2, 5), tuple(rng.randint(1, 3) for _ in range(width))) for _ in range(rng.choice([0, 1, 4, 8]))
            ]
            before = (list(stream.files), stream.frontier, len(stream.rows), stream.batch)
            step = stream.put(rows, t - rng.randint(0, 2))
            check(stream, content, step)
            if rng.random() < 0.15:  # killed before the commit: the batch comes again
                stream.files, stream.frontier = before[0], before[1]
                stream.batch = before[3]
                del stream.rows[before[2] :]
                stream.merging.set_programs([program(of)])  # as when a state is restored
                content = content if rng.random() < 0.5 else WindowState(of)
                check(stream, content, stream.put(rows, step.upto))
            if waiting and rng.random() < 0.5:
                waiting.pop(0)()
            stream.commit()
            content = WindowState(of) if rng.random() < 0.2 else content


def test_indexed_slots_are_mapped_and_are_not_merged_for_their_rows(tmp_path: Path) -> None:
    """Nothing is sorted and no row is copied; their number, not their size, makes them a time slice, and then their indexes go too."""
    (tmp_path / "slots").mkdir()
    of = occurrence(Window("w", S, "range", width=1_000), 2, False)
    stream, content = Stream(tmp_path, of, CompactionPolicy(files=4, rows=10, share=1)), WindowState(of)
    stream.indexed = lambda: True
    for batch in range(3):
        content.advance(stream.put([(100 * batch + i, (i % 7, i)) for i in range(50)], 100 * batch + 99))
        assert content.nbytes == 0 and len(content.indexed(True)) == batch + 1
        assert all(("v0",) in side.relation.indexes for side in content.indexed(True))
        stream.commit()
        assert [f.kind for f in stream.files] == ["slot", INDEX] * (batch + 1)
    content.advance(stream.put([(300, (1, 1))], 399))
    stream.commit()
    assert [f.kind for f in stream.files] == ["segment"] and stream.files[0].rows == 151


def test_a_set_window_over_time_slices_that_were_not_merged_with_each_other(tmp_path: Path) -> None:
    """What repeats a row lies in an earlier time slice, and the worker has seen none of it being written."""
    (tmp_path / "slots").mkdir()
    of = occurrence(WINDOWS[0], 1, True)
    stream = Stream(tmp_path, of, CompactionPolicy(files=2, rows=4, share=4))
    for t in range(2, 30, 2):
        check(stream, WindowState(of), stream.put([(t + 1, (value,)) for value in (1, 2, 3)], t))
        stream.commit()
    assert sum(f.kind == "segment" for f in stream.files) > 3


def test_a_time_slice_is_what_was_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    columns = {"v0": rng.integers(0, 5, 400), "v1": rng.integers(0, 300, 400), "v2": rng.integers(0, 3, 400)}
    t = np.sort(rng.integers(-50, 90, 400))
    write_time_slice(tmp_path / "s", SortedRun(relation_of(columns, 400), 0, t, t - 1), [(0,), (1,), (0, 1), (0, 2)])
    allocated = pa.total_allocated_bytes()
    found = read_time_slice(tmp_path / "s")
    assert pa.total_allocated_bytes() - allocated < 1024  # it is mapped
    assert {name: column.tolist() for name, column in found.relation.columns.items()} == {
        n: c.tolist() for n, c in columns.items()
    }
    assert found.times().tolist() == t.tolist()
    assert found.before is not None and (found.before == t - 1).all()
    assert set(found.relation.indexes) == {("v0",), ("v1",), ("v0", "v1"), ("v0", "v2")}
    for on in found.relation.indexes:
        probe, rows = found.relation.index(on).lookup(*(columns[v] for v in on))
        keys = list(zip(*(columns[v].tolist() for v in on)))
        assert sorted(zip(probe.tolist(), rows.tolist())) == [
            (i, j) for i in range(400) for j in range(400) if keys[i] == keys[j]
        ]
    composite = found.relation.index(("v0", "v1"))
    assert composite.keys is found.relation.index(("v1",)).keys  # the selective column serves both, and is stored once
    assert found.relation.index(("v0", "v2")).by is None  # neither is selective: a key of its own


def test_a_time_slice_sorts_by_several_columns_where_a_slot_shares_an_index() -> None:
    """Three rows per value of a column: a time slice is probed in many batches, and each probe would verify them."""
    relation = relation_of({"v0": np.arange(300) // 3, "v1": np.arange(300) % 3}, 300)
    _, (*_, slot) = indexes_on(relation, [(0,), (0, 1)])
    _, (*_, time_slice) = indexes_on(relation, [(0,), (0, 1)], MOST_VERIFIED)
    assert slot == {"on": [0, 1], "by": 0, "at": "0"} and time_slice == {"on": [0, 1], "by": None, "at": "0-1"}


def test_times_that_are_far_apart(tmp_path: Path) -> None:
    t = np.array([-(1 << 40), 0, 1 << 41])
    write_time_slice(tmp_path / "s", SortedRun(relation_of({}, 3), 0, t), [])
    assert read_time_slice(tmp_path / "s").times().tolist() == t.tolist()


def test_which_keys_time_slices_have() -> None:
    one, other = occurrence(WINDOWS[0], 2, False), occurrence(WINDOWS[2], 1, True)
    assert layouts([program(one, static=("b", "z"))]) == (Layout(one.shape, ((1,),), False),)
    assert layouts([program(one, other)]) == (
        Layout(one.shape, ((0,), (0, 1), (1,)), False),
        Layout(other.shape, ((0,),), True),
    )
    last = PatternOccurrence("l", Window("l", S, "last", count=3), 0, one.shape, ("a", "b"))
    assert layouts([program(one, last)]) == ()


# ------------------------------------------------------------------ many small slots
@pytest.mark.long
def test_many_small_slots_are_few_runs_and_little_memory(tmp_path: Path) -> None:
    """2,000 slots of 100 rows: what is probed stays logarithmic, and what a worker holds in memory does not grow with the window."""
    (tmp_path / "slots").mkdir()
    window = Window("w", S, "range", width=100_000)
    of, tiers, rng = occurrence(window, 2, False), CompactionPolicy(files=8, rows=1_000, share=8), random.Random(1)
    stream, content, most = Stream(tmp_path, of, tiers), WindowState(of), 0
    for batch in range(2_000):
        rows = [(100 * batch + i, (rng.randrange(50), rng.randrange(5_000))) for i in range(100)]
        content.advance(stream.put(rows, 100 * batch + 99))
        for side in content.indexed(True):
            side.relation.index(("v0",))
        most = max(most, content.nbytes)
        assert len(content.old) <= most_merged(tiers, 101_000) + tiers.files.bit_length() + 1
        assert len(stream.files) <= most_merged(tiers, 101_000) + tiers.files
        stream.commit()
        stream.files = [f for f in stream.files if f.greatest > 100 * batch + 99 - 100_000]
    held = sum(f.rows for f in stream.files)
    assert 100_000 <= held <= 100_000 * (1 + 2 / tiers.share)  # whole files expire
    # in memory: two thousand rows that are not merged yet, and of the segment that is about to expire half at most
    rows_in_memory = 2 * tiers.rows + tiers.cap(held) // 2
    assert most <= rows_in_memory * 8 * 8
    mapped = sum((tmp_path / f.path).stat().st_size for f in stream.files)
    assert mapped <= held * 48 + 20_000  # 4 for the time, 8 a column, 4 a key and row, 12 a key and distinct value


@pytest.mark.parametrize("files", (1_000, 4))
def test_rows_are_sorted_once_however_often_runs_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int) -> None:
    """By each key, in memory; and once more in the slots that a time slice is made of, if there are any."""
    (tmp_path / "slots").mkdir()
    of, rng, batches, each = occurrence(Window("w", S, "range", width=10**6), 2, False), random.Random(1), 64, 50
    sorted_rows, sort = list[int](), index_room.stable_order
    monkeypatch.setattr(index_room, "stable_order", lambda column: sorted_rows.append(len(column)) or sort(column))
    stream, content = Stream(tmp_path, of, CompactionPolicy(files=files, rows=10**6, share=1)), WindowState(of)
    for batch in range(batches):
        rows = [(each * batch + i, (rng.randrange(50), rng.randrange(5_000))) for i in range(each)]
        content.advance(stream.put(rows, each * batch + each - 1))
        for side in content.indexed(True):
            for on in (("v0",), ("v1",)):
                side.relation.index(on)
        stream.commit()
        assert len(content.old) <= 12
    assert sum(sorted_rows) <= 2 * batches * each * (1 if files > batches else 2.5)


def test_a_short_window_maps_none_of_what_a_long_one_keeps(tmp_path: Path) -> None:
    (tmp_path / "slots").mkdir()
    long, short = occurrence(Window("w", S, "range", width=1 << 30), 1, False), occurrence(WINDOWS[1], 1, False)
    stream, content = Stream(tmp_path, long, CompactionPolicy(files=2, rows=50)), WindowState(short)
    for batch in range(50):
        content.advance(stream.put([(batch * 10 + i, (i,)) for i in range(10)], batch * 10 + 9))
        stream.commit()
        assert len(content.old) == 0
        assert len(content.new) == 10


def test_pages_of_terms_are_merged(tmp_path: Path) -> None:
    files = []
    for number in range(5):
        ids = np.array([1, 10 + number, 5], np.int64)
        write_page(tmp_path / f"p{number}", ids, ["<one>", f"<{number}>", "<five>"])
        files.append(SlotFile("terms", f"p{number}", rows=3, least=number, greatest=number))
    merging = Compaction(tmp_path, [], CompactionPolicy(files=4), run_merges, at_once)
    assert merging.absorb_finished(files[:3], 0, 9) == files[:3]
    (page,) = merging.absorb_finished(files, 1, 9)
    assert (page.rows, page.greatest) == (7, 4)
    found, terms = Page.open(tmp_path / page.path).find(np.array([14, 2, 1, 5]))
    assert found.tolist() == [True, False, True, True]
    assert terms == ["<4>", "<one>", "<five>"]


@pytest.mark.parametrize("failure", [OSError("the disk is full"), TypeError("zip() argument 2 is shorter"), None])
def test_a_merge_that_fails_is_tried_again_after_more_and_more_batches(failure: Exception | None, tmp_path: Path) -> None:
    attempts, notes, batch = list[int](), list[str](), 0

    def fail(tasks: Sequence[MergeTask]) -> list[MergeResult]:
        attempts.append(batch)
        if failure is None:
            return []  # of a job that has lost its reports
        raise failure

    of = occurrence(WINDOWS[2], 1, False)
    stream = Stream(tmp_path, of, CompactionPolicy(files=1))
    merging = Compaction(tmp_path, [program(of)], CompactionPolicy(files=1), fail, at_once, notes.append)
    stream.put([(1, (1,))], 1)
    before = stream.files
    for batch in range(40):
        assert merging.absorb_finished(before, batch, 1) == before
    assert attempts == [0, 2, 6, 14, 30]
    assert merging.failures == 5
    (note,) = notes
    assert str(failure or "0 of 1 merges gave a result") in note


def pages_of(folder: Path, stream: str, numbers: Sequence[int]) -> list[SlotFile]:
    """Pages of terms of a stream, with one term each."""
    files = [SlotFile("terms", f"slots/{stream}{n}", stream, rows=1, least=n, greatest=n) for n in numbers]
    for file in files:
        write_page(folder / file.path, np.array([file.least], np.int64), [f"<{file.least}>"])
    return files


def unnamed(folder: Path, files: Sequence[SlotFile]) -> set[str]:
    return {f"slots/{path.name}" for path in (folder / "slots").iterdir()} - {file.path for file in files}


def test_other_merges_continue_while_one_fails(tmp_path: Path) -> None:
    """It leaves no file, however often it is tried again, and the others do not wait for it."""
    bad, good = pages_of(tmp_path, "bad", range(4)), pages_of(tmp_path, "good", range(4))
    (tmp_path / bad[1].path).write_bytes(b"damaged")
    merging = Compaction(tmp_path, [], CompactionPolicy(files=4), run_merges, at_once)
    inputs, files = list(good), [*bad, *good]
    for batch in range(40):
        files = merging.absorb_finished(files, batch, 9)
        assert [file.path for file in files[:4]] == [file.path for file in bad]
        assert len(files) == 5
        assert unnamed(tmp_path, files) == {file.path for file in inputs}
        if batch == 2:  # at which merging the bad pages has failed twice
            inputs += [files[4], *(more := pages_of(tmp_path, "good", range(4, 8)))]
            files = [*files, *more]
    assert files[4].rows == 8
    assert merging.failures == 5


def test_the_result_of_a_merge_that_a_change_of_programs_discards_is_deleted(tmp_path: Path) -> None:
    """Such as a query that is added while it runs, or a state that is restored. Its inputs stay until it has ended."""
    before, later = pages_of(tmp_path, "one", range(4)), list[Callable[[], None]]()
    merging = Compaction(tmp_path, [], CompactionPolicy(files=4), run_merges, later.append)
    assert merging.absorb_finished(before, 0, 9) == before
    merging.set_programs([])
    assert merging.reading == {file.path for file in before}
    later.pop()()
    assert unnamed(tmp_path, before)
    assert merging.absorb_finished(before, 1, 9) == before
    assert not unnamed(tmp_path, before) and merging.failures == 0
    later.pop()()
    (page,) = merging.absorb_finished(before, 2, 9)
    assert page.rows == 4 and merging.reading == set()


def test_a_merge_that_cannot_be_started(tmp_path: Path) -> None:
    def no_thread(work: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    of = occurrence(WINDOWS[2], 1, False)
    stream = Stream(tmp_path, of, CompactionPolicy(files=1))
    stream.merging = Compaction(tmp_path, [program(of)], CompactionPolicy(files=1), run_merges, no_thread)
    stream.put([(1, (1,))], 1)
    stream.commit()
    assert stream.merging.failures == 1
    stream.merging = Compaction(tmp_path, [program(of)], CompactionPolicy(files=1), run_merges, at_once)
    stream.commit()
    assert [f.kind for f in stream.files] == ["segment"]
