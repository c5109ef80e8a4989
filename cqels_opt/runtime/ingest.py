"""Elements in, binding slots out: encode the terms, match the pattern shapes, write the slots, count (the executors' first stage)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cqels_opt.lod.key_search import mix
from cqels_opt.operators.rows import UNBOUND, Ints
from cqels_opt.operators.term_table import write_page
from cqels_opt.rdf.ids import IdScheme
from cqels_opt.runtime.rejected_elements import Rejected, RejectSpool
from cqels_opt.runtime.term_encoding import EncodedRows, Texts, TripleTerms, encode_rows
from cqels_opt.state import worker_cache
from cqels_opt.state.slot_indexes import INDEXED_FROM, write_slot_index
from cqels_opt.state.time_slices import Key
from cqels_opt.stats import SlotCounts, slot_parts, with_instants
from cqels_opt.storage.columns import Columns, write_columns
from cqels_opt.windows.binding_slots import ANYTHING, Shape, SlotFile
from cqels_opt.windows.element_rows import ELEMENT_ROWS

__all__ = [
    "COUNT_PARTS",
    "ELEMENT_ROWS",
    "FileRead",
    "IngestReport",
    "IngestTask",
    "RejectSpool",
    "Rejected",
    "StreamReport",
    "count_parts",
    "ingest",
]

FileRead: TypeAlias = "tuple[int, str, int]"
"""A file of a live folder: the stream's number, the name, and the bytes when it was read."""

COUNT_PARTS = 8
"""The most parts of a slot by which value counts enter and leave the statistics."""
ROWS_PER_PART = 4096
"""A slot with fewer rows than two parts has one: statistics cost time per part, and a small batch is short next to its windows."""


@dataclass(frozen=True, slots=True)
class IngestTask:
    """The input of a task of the first stage besides its rows. ``frontier``: elements at or before it are late."""

    folder: str
    batch: int
    streams: tuple[str, ...]
    shapes: tuple[Shape, ...]
    store: str
    scheme: IdScheme
    frontier: int
    tables: frozenset[str]  # streams whose elements must be ranked (last-n windows)
    pages: tuple[str, ...] = ()  # of the known terms besides the store's: new terms are compared with them
    stage: str = ""  # of elements that queries of the run emit: a mark of their files
    keys: Mapping[Shape, Sequence[Key]] = field(default_factory=dict)  # on which large slots are indexed
    momentary: frozenset[Shape] = frozenset()  # of which values are counted with their times as well
    tasks: int = 1  # about how many share the batch: each counts its values in as few parts as all together should
    lateness: int = 0  # milliseconds by which the frontier stays behind the greatest times

    def rejects(self, name: str) -> RejectSpool:
        """The spool of rejected elements of a task. ``name`` (task and attempt) keeps the files of retries apart."""
        return RejectSpool(self.folder, f"slots/rejects-{self.batch:08d}-{self.stage}{name}.jsonl")


@dataclass(slots=True)
class StreamReport:
    """The summary of one stream in a task: counts only, no rows."""

    elements: int = 0
    late: int = 0
    last: dict[int, tuple[int | None, int]] = field(default_factory=dict)
    """The greatest time (of rows that can be read; None without any) and the greatest offset of each partition."""
    first: int | None = None
    times: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    counts: dict[str, tuple[SlotCounts, ...]] = field(default_factory=dict)  # by Shape.key


@dataclass(slots=True)
class IngestReport:
    """The report of a task of the first stage to the driver."""

    files: list[SlotFile] = field(default_factory=list)
    streams: dict[str, StreamReport] = field(default_factory=dict)
    rejected: RejectSpool = field(default_factory=RejectSpool)
    losers: list[str] = field(default_factory=list)  # terms with the id of another one: nothing was written, see CollisionError
    files_read: list[FileRead] = field(default_factory=list)  # of live folders
    suspects: dict[int, int | None] = field(default_factory=dict)  # partition -> time of its last element if too far ahead
    topics: set[tuple[str, str]] = field(default_factory=set)  # of messages: stream and topic


def ingest(
    rows: pa.Table | Iterable[pa.RecordBatch], task: IngestTask, name: str, rejected: RejectSpool | None = None
) -> IngestReport:
    """Writes the triples of a task into slots. ``name`` (task and attempt) keeps the files of retries apart.

    ``rejected`` has the elements that could not be read; elements that cannot be used are added to it.
    """
    report = IngestReport(rejected=task.rejects(name) if rejected is None else rejected)
    blocks = [rows] if isinstance(rows, pa.Table) else rows
    graphs = any(len(shape.places) > len("spo") for shape in task.shapes)
    quoted = any(shape.inside for shape in task.shapes)
    whole, texts = encode_rows(blocks, task.streams, task.store, task.scheme, report.rejected, graphs, quoted)
    report.losers = texts.losers(worker_cache.pages(task.pages))
    if report.losers or not len(whole):
        return report
    late, numbers = whole.late | (whole.t <= task.frontier), _distinct(whole.stream)
    for number in numbers:
        report.streams[task.streams[number]] = StreamReport(last=_last(whole, number))
    greatest = [t for seen in report.streams.values() for t, _ in seen.last.values() if t is not None]
    final = min(greatest, default=task.frontier) - 1 - task.lateness
    writer = _SlotWriter(task, name, final, texts, report)
    for number in numbers:
        order, elements = _admitted(whole, number, late, report.streams[task.streams[number]])
        if len(order):
            writer.write(whole, number, order, elements)
    return report


def _last(rows: EncodedRows, number: int) -> dict[int, tuple[int | None, int]]:
    """:attr:`StreamReport.last` of a stream: a row that cannot be read is no element, and moves no frontier."""
    mine, found = rows.stream == number, dict[int, tuple[int | None, int]]()
    for partition in _distinct(rows.partition[mine]):
        own = np.flatnonzero(mine & (rows.partition == partition))
        readable = own[~rows.bad[own]]
        found[partition] = int(rows.t.take(readable).max()) if len(readable) else None, int(rows.offset.take(own).max())
    return found


def _admitted(rows: EncodedRows, number: int, late: NDArray[np.bool_], seen: StreamReport) -> tuple[Ints, Ints]:
    """The valid rows of a stream that are not late, in order of (time, partition, offset), and the numbers of their elements; ``seen``
    gets their counts.
    """
    mine, t, partition, offset = rows.stream == number, rows.t, rows.partition, rows.offset
    kept = np.flatnonzero(mine & ~late & ~rows.bad)
    seen.first = int(t[kept].min()) if len(kept) else None
    order = _in_order(kept, t, partition, offset)
    order, elements = _once(order, _elements(order, t, partition, offset), rows.terms)
    seen.elements = int(elements[-1]) + 1 if len(elements) else 0
    dropped = _in_order(np.flatnonzero(mine & late), partition, offset)
    gone = _elements(dropped, t, partition, offset)
    seen.late = int(gone[-1]) + 1 if len(gone) else 0
    return order, elements


@dataclass(frozen=True, slots=True)
class _SlotWriter:
    """Writes slots, elements and terms of streams. ``final``: where the frontier is expected to stop."""

    task: IngestTask
    name: str
    final: int
    texts: Texts
    report: IngestReport

    def write(self, rows: EncodedRows, number: int, order: Ints, elements: Ints) -> None:
        """Writes the rows of one stream, in this order."""
        task, folder, iri = self.task, Path(self.task.folder), self.task.streams[number]
        seen = self.report.streams[iri]
        times, terms = rows.t.take(order), [column.take(order) for column in rows.terms]
        seen.times = times[np.append(True, times[1:] != times[:-1])]
        head = f"slots/{{}}-{task.batch:08d}-{task.stage}{self.name}-{number}"
        if iri in task.tables:
            first = np.flatnonzero(np.append(True, elements[1:] != elements[:-1]))
            path = head.format("elements") + ".arrow"
            table = {"t": times.take(first), "partition": rows.partition[order][first], "offset": rows.offset[order][first]}
            write_columns(folder / path, table)
            self.report.files.append(SlotFile("elements", path, iri, "", len(first), int(times[0]), int(times[-1])))
        used: list[Ints] = []
        for shape in task.shapes:
            if shape.stream != iri:
                continue
            bound, matched = _match(shape, terms, rows.quoted)
            if not len(places := np.flatnonzero(matched)):
                continue
            columns = {"t": times.take(places), "e": elements.take(places)}
            columns |= {f"v{variable}": bound[variable].take(places) for variable in range(shape.width)}
            values = {f"v{i}": columns[f"v{i}"] for i in range(shape.width)}
            used += values.values()
            self.report.files += _write_slots(folder, head.format("slot"), shape, columns, self.final, task.keys.get(shape))
            if shape in task.momentary:
                values = with_instants(columns["t"], values)
            seen.counts[shape.key] = _counts(columns["t"], values, self.final, task.tasks)
        self.report.files += _write_terms(folder, head.format("terms") + ".arrow", iri, used, self.texts, int(times[-1]))


def _write_slots(
    folder: Path, name: str, shape: Shape, columns: Columns, final: int, keys: Sequence[Key] | None
) -> list[SlotFile]:
    """The slot of some rows in order of time. A large one has its index, on no key if no plan probes it, with which it is mapped. The rows
    after ``final`` are then a slot of their own, for the frontier is expected to stop there and an index covers whole slots.
    """
    t = columns["t"]
    rest = int(np.searchsorted(t, final, side="right"))
    indexed = keys is not None and max(rest, len(t) - rest) >= INDEXED_FROM
    files = []
    for mark, some in (("", slice(rest)), ("-last", slice(rest, None))) if indexed else (("", slice(None)),):
        part = {name: column[some] for name, column in columns.items()}
        if not len(part["t"]):
            continue
        path = f"{name}{mark}-{shape.key}.arrow"
        write_columns(folder / path, part)
        files.append(SlotFile("slot", path, shape.stream, shape.key, len(part["t"]), int(part["t"][0]), int(part["t"][-1])))
        if keys is not None and len(part["t"]) >= INDEXED_FROM:
            files.append(write_slot_index(folder, files[-1], part, keys))
    return files


def _counts(t: Ints, values: dict[str, Ints], final: int, tasks: int) -> tuple[SlotCounts, ...]:
    """Counts in parts by time; none has rows of both sides of ``final``, where the frontier is expected to stop."""
    rest = int(np.searchsorted(t, final, side="right"))
    sides = ((t[some], {v: column[some] for v, column in values.items()}) for some in (slice(rest), slice(rest, None)))
    return tuple(part for times, columns in sides for part in slot_parts(0, times, columns, count_parts(len(times), tasks)))


def count_parts(rows: int, tasks: int = 1) -> int:
    """The number of parts of a slot with some rows, one of as many as there are tasks."""
    return max(1, min(COUNT_PARTS // tasks, rows // ROWS_PER_PART))


def _distinct(column: Ints) -> list[int]:
    """The values of a column that mostly has one."""
    same = len(column) > 0 and bool((column == column[0]).all())
    return [int(column[0])] if same else np.unique(column).tolist()


def _in_order(rows: Ints, *by: Ints) -> Ints:
    """Rows in the order of some columns; they mostly arrive in that order."""
    columns = [column.take(rows) for column in by]
    apart = np.zeros(max(0, len(rows) - 1), bool)  # whether an earlier column has decided
    for column in columns:
        if (~apart & (column[1:] < column[:-1])).any():
            return rows[np.lexsort(tuple(reversed(columns)))]
        apart |= column[1:] > column[:-1]
    return rows


def _elements(order: Ints, t: Ints, partition: Ints, offset: Ints) -> Ints:
    """Numbers the elements of ordered rows: rows of equal (time, partition, offset) are one element."""
    changed = np.zeros(len(order), np.int64)
    for column in (t, partition, offset):
        ordered = column.take(order)
        changed[1:] |= ordered[1:] != ordered[:-1]
    return np.cumsum(changed)


def _once(order: Ints, elements: Ints, columns: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Ordered rows and their elements without repetitions of a triple in its element, because its graph is a set."""
    if not len(order) or elements[-1] + 1 == len(order):  # one row per element
        return order, elements
    keys = [elements, *(column[order] for column in columns)]
    hashes = mix(keys)
    hashes.sort()
    if (hashes[1:] != hashes[:-1]).all():
        return order, elements
    sorted_ = np.lexsort(keys)
    again = np.ones(len(order) - 1, bool)
    for key in keys:
        again &= key[sorted_][1:] == key[sorted_][:-1]
    kept = np.ones(len(order), bool)
    kept[sorted_[1:][again]] = False
    return order[kept], elements[kept]


def _match(shape: Shape, columns: Sequence[Ints], quoted: TripleTerms) -> tuple[dict[int, Ints], NDArray[np.bool_]]:
    """The binding columns of a shape over all rows, and which rows match it."""
    matched = np.ones(len(columns[0]), bool) if len(shape.places) < len(columns) else columns[-1] != UNBOUND
    bound: dict[int, Ints] = {}

    def meet(constant: int, place: int, column: Ints) -> None:
        nonlocal matched
        if place < 0:
            matched = matched if constant == ANYTHING else matched & (column == constant)
        elif place in bound:
            matched = matched & (column == bound[place])
        else:
            bound[place] = column

    for constant, place, column in zip(shape.constants, shape.places, columns):
        meet(constant, place, column)
    found, apart = list(columns[:3]), dict[int, Ints]()
    for of, part, constant, place in shape.inside:
        if of not in apart:
            apart[of] = quoted.of(found[of])
            matched = matched & (apart[of][0] != UNBOUND)
        found.append(apart[of][part])
        meet(constant, place, found[-1])
    return bound, matched


def _write_terms(folder: Path, path: str, stream: str, used: Iterable[Ints], texts: Texts, greatest: int) -> list[SlotFile]:
    """The page of the terms in a stream's slots that neither their id nor the static store gives."""
    ids, terms = texts.of(np.concatenate([np.empty(0, np.int64), *used]))
    if not len(ids):
        return []
    write_page(folder / path, ids, terms)
    return [SlotFile("terms", path, stream, rows=len(ids), least=greatest, greatest=greatest)]
