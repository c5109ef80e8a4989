"""Elements in, binding slots out: encode the terms, match the pattern shapes, write the slots, count (the executors' first stage)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cqels_opt.operators import cache
from cqels_opt.operators.rows import Ints
from cqels_opt.operators.terms import write_page
from cqels_opt.rdf import ids as term_ids
from cqels_opt.rdf.terms import TermError, canonical, is_literal
from cqels_opt.stats import SlotCounts, slot_counts, slot_parts
from cqels_opt.windows.columns import write_columns
from cqels_opt.windows.slots import Shape, SlotFile

COUNT_PARTS = 8  # value counts enter and leave the statistics by parts of a slot
_KNOWN: dict[str, str | None] = {}  # raw term -> canonical text (None: not a term), kept by the worker
_KNOWN_LIMIT = 1_000_000

_FIELDS: dict[str, pa.DataType] = {
    "stream": pa.int32(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "s": pa.string(),
    "p": pa.string(),
    "o": pa.string(),
    "g": pa.string(),
    "t": pa.int64(),
    "late": pa.bool_(),
    "line": pa.int64(),
}
ROW_SCHEMA = pa.schema(_FIELDS)
"""What the first stage is given: a row a triple; ``stream`` is the place in :attr:`IngestTask.streams`, ``offset`` the element."""


@dataclass(frozen=True, slots=True)
class IngestTask:
    """What a task of the first stage needs beside its rows. ``frontier``: elements at or before it are late."""

    folder: str
    batch: int
    streams: tuple[str, ...]
    shapes: tuple[Shape, ...]
    store: str
    seed: int
    frontier: int
    tables: frozenset[str]  # streams whose elements must be ranked (last-n windows)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A triple that cannot be read: where it stands and why."""

    stream: str
    partition: int
    line: int
    reason: str


@dataclass(slots=True)
class StreamReport:
    """What a task saw of one stream: counts only, no rows."""

    elements: int = 0
    late: int = 0
    last: dict[int, tuple[int, int]] = field(default_factory=dict)  # partition -> (greatest time, greatest offset)
    first: int | None = None
    times: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    counts: dict[str, tuple[SlotCounts, ...]] = field(default_factory=dict)  # by Shape.key


@dataclass(slots=True)
class IngestReport:
    """What a task of the first stage reports to the driver."""

    files: list[SlotFile] = field(default_factory=list)
    streams: dict[str, StreamReport] = field(default_factory=dict)
    rejected: list[Rejected] = field(default_factory=list)
    modified: dict[int, int] = field(
        default_factory=dict
    )  # stream -> when the newest of its files was modified (ms), of live folders


def ingest(rows: pa.Table, task: IngestTask, name: str) -> IngestReport:
    """Puts the triples of a task into slots. ``name`` (task and attempt) keeps the files of retries apart."""
    report = IngestReport()
    folder = Path(task.folder)
    rows, report.rejected = _whole(rows, task)
    if not rows.num_rows:
        return report
    rows = _scoped(rows)
    stream, partition = _ints(rows, "stream"), _ints(rows, "partition")
    offset, t, line = _ints(rows, "offset"), _ints(rows, "t"), _ints(rows, "line")
    late = rows.column("late").combine_chunks().to_numpy(zero_copy_only=False).astype(bool) | (t <= task.frontier)
    encoded, texts, bad = _encode(rows, task.seed)
    for row in np.flatnonzero(bad).tolist():
        which = next(name for name in ("s", "p", "o") if _reason(rows, name, row))
        said = Rejected(task.streams[stream[row]], int(partition[row]), int(line[row]), _reason(rows, which, row))
        report.rejected.append(said)
    used: list[Ints] = []
    for number in np.unique(stream).tolist():
        iri = task.streams[number]
        mine = stream == number
        seen = StreamReport()
        report.streams[iri] = seen
        for p in np.unique(partition[mine]).tolist():
            own = mine & (partition == p)
            seen.last[p] = (int(t[own].max()), int(offset[own].max()))
        kept = np.flatnonzero(mine & ~late & ~bad)
        seen.first = int(t[kept].min()) if len(kept) else None
        order = kept[np.lexsort((offset[kept], partition[kept], t[kept]))]
        elements = _elements(order, t, partition, offset)
        seen.elements = int(elements[-1]) + 1 if len(elements) else 0
        dropped = np.flatnonzero(mine & late)
        dropped = dropped[np.lexsort((offset[dropped], partition[dropped]))]
        gone = _elements(dropped, t, partition, offset)
        seen.late = int(gone[-1]) + 1 if len(gone) else 0
        if not len(order):
            continue
        seen.times = np.unique(t[order])
        head = f"slots/{{}}-{task.batch:08d}-{name}-{number}"
        if iri in task.tables:
            first = np.flatnonzero(np.append(True, elements[1:] != elements[:-1]))
            path = head.format("elements") + ".arrow"
            table = {"t": t[order][first], "partition": partition[order][first], "offset": offset[order][first]}
            write_columns(folder / path, table)
            report.files.append(SlotFile("elements", path, iri, "", len(first), int(t[order[0]]), int(t[order[-1]])))
        for shape in task.shapes:
            if shape.stream != iri:
                continue
            matched = _match(shape, [column[order] for column in encoded])
            if not matched.any():
                continue
            columns = {"t": t[order][matched], "e": elements[matched]}
            for place, column in zip(shape.places, encoded):
                if place >= 0:
                    columns[f"v{place}"] = column[order][matched]
            used += [columns[f"v{i}"] for i in range(shape.width)]
            path = f"{head.format('slot')}-{shape.key}.arrow"
            write_columns(folder / path, columns)
            report.files.append(
                SlotFile("slot", path, iri, shape.key, len(columns["t"]), int(columns["t"][0]), int(columns["t"][-1]))
            )
            values = {f"v{i}": columns[f"v{i}"] for i in range(shape.width)}
            seen.counts[shape.key] = _counts(columns["t"], values)
    page = _write_terms(folder, f"slots/terms-{task.batch:08d}-{name}.arrow", task, used, texts, int(t.max()))
    report.files += page
    return report


def _counts(t: Ints, values: dict[str, Ints]) -> tuple[SlotCounts, ...]:
    """Counts in parts by time; the greatest time is a part of its own, for the frontier mostly stops short of it."""
    rest = int(np.searchsorted(t, t[-1]))
    tail = slot_counts(0, t[rest:], {v: c[rest:] for v, c in values.items()})
    return (*slot_parts(0, t[:rest], {v: c[:rest] for v, c in values.items()}, COUNT_PARTS), tail)


def _whole(rows: pa.Table, task: IngestTask) -> tuple[pa.Table, list[Rejected]]:
    """The rows that have a time and a place, and what is said of the others (users' DataFrames may have nulls)."""
    rejected: list[Rejected] = []
    rows = rows.combine_chunks()
    for column, what in (("t", "the time is missing"), ("offset", "its place in the order is missing")):
        if rows.column(column).null_count:
            absent: Any = pc.is_null(rows.column(column))
            for row in rows.filter(absent).to_pylist():
                rejected.append(Rejected(task.streams[row["stream"]], row["partition"], row["line"] or 0, what))
            rows = rows.filter(pc.invert(absent))
    return rows.combine_chunks(), rejected


def _scoped(rows: pa.Table) -> pa.Table:
    """Blank nodes belong to their stream: their labels get its number in front."""
    for name in ("s", "o", "g"):
        column: Any = rows.column(name).combine_chunks()
        blank: Any = pc.fill_null(pc.starts_with(column, "_:"), False)
        if pc.any(blank).as_py():
            number: Any = rows.column("stream").combine_chunks().cast(pa.string())
            parts: list[Any] = ["_:s", number, "-"]
            prefix: Any = pc.binary_join_element_wise(*parts, "")
            renamed = pc.binary_join_element_wise(prefix, pc.utf8_slice_codeunits(column, 2), "")
            rows = rows.set_column(rows.schema.get_field_index(name), name, pc.if_else(blank, renamed, column))
    return rows


def _ints(rows: pa.Table, column: str) -> Ints:
    return np.asarray(rows.column(column).combine_chunks().to_numpy(zero_copy_only=False)).astype(np.int64)


def _elements(order: Ints, t: Ints, partition: Ints, offset: Ints) -> Ints:
    """Numbers the elements of ordered rows: rows of equal (time, partition, offset) are one element."""
    changed = np.zeros(len(order), np.int64)
    for column in (t, partition, offset):
        ordered = column[order]
        changed[1:] |= ordered[1:] != ordered[:-1]
    return np.cumsum(changed)


def _canonical(raw: str) -> str | None:
    if raw not in _KNOWN:
        if len(_KNOWN) >= _KNOWN_LIMIT:
            _KNOWN.clear()
        try:
            _KNOWN[raw] = canonical(raw)
        except TermError:
            _KNOWN[raw] = None
    return _KNOWN[raw]


def _encode(rows: pa.Table, seed: int) -> tuple[list[Ints], dict[int, str], NDArray[np.bool_]]:
    """Ids of subject, predicate and object, the texts of all ids, and which rows have a term that cannot be read."""
    columns, texts = [], {}
    bad = np.zeros(rows.num_rows, bool)
    for name in ("s", "p", "o"):
        coded: Any = pc.dictionary_encode(rows.column(name).combine_chunks().fill_null(""))
        forms = [_canonical(raw) for raw in coded.dictionary.to_pylist()]
        wrong = np.array(
            [f is None or (name == "s" and is_literal(f)) or (name == "p" and not f.startswith("<")) for f in forms], bool
        )
        codes = np.zeros(len(forms), np.int64)
        good = np.flatnonzero(~wrong)
        codes[good] = term_ids.encode([forms[i] or "" for i in good], seed)
        texts.update({code: form for code, form in zip(codes.tolist(), forms) if form is not None})
        index = coded.indices.to_numpy(zero_copy_only=False)
        columns.append(codes[index])
        bad |= wrong[index]
    return columns, texts, bad


def _reason(rows: pa.Table, name: str, row: int) -> str:
    """Why a cell is no term in its place; empty where it is."""
    what = {"s": "subject", "p": "predicate", "o": "object"}[name]
    raw = rows.column(name)[row].as_py()
    if raw is None:
        return f"the {what} is missing"
    try:
        form = canonical(raw)
    except TermError as error:
        return f"the {what} is not an N-Triples term: {error}"
    if name == "s" and is_literal(form):
        return f"the subject {raw} is a literal"
    if name == "p" and not form.startswith("<"):
        return f"the predicate {raw} is not an IRI"
    return ""


def _match(shape: Shape, columns: Sequence[Ints]) -> NDArray[np.bool_]:
    matched = np.ones(len(columns[0]), bool)
    bound: dict[int, Ints] = {}
    for constant, place, column in zip(shape.constants, shape.places, columns):
        if place < 0:
            matched &= column == constant
        elif place in bound:
            matched &= column == bound[place]
        else:
            bound[place] = column
    return matched


def _write_terms(
    folder: Path, path: str, task: IngestTask, used: Iterable[Ints], texts: dict[int, str], greatest: int
) -> list[SlotFile]:
    """The page of the terms that slots use and neither their id nor the static store tells."""
    parts = list(used)
    if not parts:
        return []
    distinct = np.unique(np.concatenate(parts))
    distinct = distinct[~term_ids.is_inline(distinct)]
    if task.store and len(distinct):
        distinct = distinct[~cache.store(task.store).contains(distinct)]
    if not len(distinct):
        return []
    write_page(folder / path, distinct, [texts[i] for i in distinct.tolist()])
    return [SlotFile("terms", path, rows=len(distinct), least=greatest, greatest=greatest)]
