"""The rows of a batch without their texts: terms become ids, one block of rows at a time.

Only texts that neither the id nor the static store gives are kept; the texts of a large batch are never in memory together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cqels_opt.operators.rows import Ints
from cqels_opt.operators.term_table import Page
from cqels_opt.rdf import ids as term_ids
from cqels_opt.rdf.canonical import canonical_texts
from cqels_opt.rdf.quoted import may_have_blank_nodes, may_have_blank_nodes_inside, parts_of, quoted_among
from cqels_opt.rdf.terms import OPENING, TermError, canonical, how_to_write, is_iri, is_literal, relabelled
from cqels_opt.rdf.times import EXPECTED, in_range, mask_of
from cqels_opt.runtime.rejected_elements import Rejected, RejectSpool
from cqels_opt.state import worker_cache
from cqels_opt.state.known_terms import MOST_KNOWN, KnownTerms
from cqels_opt.stats.frequencies import distinct_values
from cqels_opt.windows.element_rows import ELEMENT_ROWS

BLOCK = 1 << 19  # rows that are encoded at a time
FEW = 8  # texts that are looked for among the ids one by one

FED = 1 << 30
"""The partition of the first stream that a query of the run feeds; no source has one so great."""

_WHAT = {"s": "subject", "p": "predicate", "o": "object", "g": "name of the graph"}


@dataclass(slots=True)
class Texts:
    """Terms by their ids. ``collided`` are terms whose id the static store has for another one."""

    _ids: list[Ints] = field(default_factory=list)
    _texts: list[Any] = field(default_factory=list)
    collided: list[str] = field(default_factory=list)
    _distinct: bool = False

    def add(self, ids: Ints, texts: pa.StringArray) -> None:
        """More terms; some may be there already."""
        self._distinct = False
        self._ids.append(ids)
        self._texts.append(texts)

    def losers(self, pages: Iterable[Page]) -> list[str]:
        """The terms whose id is that of another term: one of the store, of these pages, or else of those here."""
        found = list(self.collided)
        if not self._ids:
            return found
        try:
            known, texts = self._once()
            among: tuple[str, ...] = ()
        except term_ids.CollisionError as error:
            known, texts, among = np.concatenate(self._ids), pa.concat_arrays(self._texts), error.losers
        for page in pages:
            if (other := page.others(known, texts)).any():
                found += term_ids.chosen(texts, other)
        return found or list(among)  # a known term keeps its id, even if it is not the least

    def _once(self) -> tuple[Ints, pa.StringArray]:
        if len(self._ids) != 1 or not self._distinct:
            ids, texts = np.concatenate([np.empty(0, np.int64), *self._ids]), [pa.array([], pa.string()), *self._texts]
            known, once = term_ids.once(ids, pa.concat_arrays(texts))
            self._ids, self._texts, self._distinct = [known], [once], True
        return self._ids[0], self._texts[0]

    def of(self, ids: Ints) -> tuple[Ints, pa.StringArray]:
        """Those of the ids whose texts are here, in rising order, and the texts. Two texts of one id are a CollisionError."""
        known, texts = self._once()
        if not len(known):
            return known, texts
        if len(known) <= FEW:
            kept = np.array([(ids == one).any() for one in known], bool)
        else:
            kept, ids = np.zeros(len(known), bool), distinct_values(ids)
            place = np.searchsorted(known, ids)
            place[place == len(known)] = 0
            kept[place[known[place] == ids]] = True
        return known[kept], texts.filter(pa.array(kept))


@dataclass(slots=True)
class TripleTerms:
    """The parts of the triple terms of a batch, as ids, and of those inside them."""

    _ids: list[Ints] = field(default_factory=list)
    _parts: list[Ints] = field(default_factory=list)  # three rows each

    def add(self, ids: Ints, terms: pa.StringArray, store: str, scheme: term_ids.IdScheme, texts: Texts) -> None:
        """Adds triple terms, each once, and keeps the texts of their parts if necessary."""
        while len(ids):
            distinct, index = _dictionary(parts_of(terms))
            codes = term_ids.encode(distinct, scheme)
            _keep(codes, distinct, store, texts)
            self._ids.append(ids)
            self._parts.append(codes[index].reshape(3, -1))
            ids, terms = codes[term_ids.kinds(codes) == term_ids.KIND_QUOTED], quoted_among(distinct)

    def of(self, ids: Ints) -> Ints:
        """Subjects, predicates and objects of the ids, three rows; 0 if an id is no triple term."""
        if not self._ids:
            return np.zeros((3, len(ids)), np.int64)
        if len(self._ids) > 1:
            known, first = np.unique(np.concatenate(self._ids), return_index=True)
            self._ids, self._parts = [known], [np.concatenate(self._parts, axis=1)[:, first]]
        known, parts = self._ids[0], self._parts[0]
        order = np.argsort(known)
        place = order[np.minimum(np.searchsorted(known, ids, sorter=order), len(known) - 1)]
        return np.where(known[place] == ids, parts[:, place], 0)


def _keep(ids: Ints, terms: pa.StringArray, store: str, texts: Texts) -> NDArray[np.bool_]:
    """Keeps the texts that neither their id nor the static store gives, and those whose id the store has for another term.

    Returns which terms the store has."""
    unknown, same = ~term_ids.is_inline(ids), np.zeros(len(ids), bool)
    if store and unknown.any():
        known, other = worker_cache.store(store).compare(ids, terms)
        texts.collided += term_ids.chosen(terms, other)
        unknown &= ~known
        same = known & ~other
    if unknown.any():
        texts.add(ids[unknown], terms.filter(pa.array(unknown)))
    return same


@dataclass(slots=True)
class EncodedRows:
    """Rows without their texts: an array per column; ``bad`` rows have a term that cannot be read."""

    stream: Ints
    partition: Ints
    offset: Ints
    t: Ints
    line: Ints
    late: NDArray[np.bool_]
    terms: tuple[Ints, ...]  # s, p and o, and the names of the elements' graphs if they are used
    bad: NDArray[np.bool_]
    quoted: TripleTerms = field(default_factory=TripleTerms)

    def __len__(self) -> int:
        return len(self.t)


def encode_rows(
    blocks: Iterable[pa.Table | pa.RecordBatch],
    streams: Sequence[str],
    store: str,
    scheme: term_ids.IdScheme,
    rejected: RejectSpool,
    graphs: bool,
    quoted: bool,
) -> tuple[EncodedRows, Texts]:
    """The rows that have a time and an offset, and the texts that must be kept. Rows that cannot be read are ``rejected``.

    With ``graphs`` the names of the elements' graphs are encoded too; with ``quoted`` triple terms are taken apart.
    """
    texts, parts = Texts(), list[EncodedRows]()
    known = worker_cache.term_ids(store, scheme) if store else KnownTerms()
    encoding = _Encoding(store, scheme, known, texts, TripleTerms() if quoted else None)
    for rows in _of_size(blocks):
        whole = _whole(rows, streams, rejected)
        if whole.num_rows:
            parts.append(_coded(whole, streams, encoding, rejected, graphs))
    return replace(_together(parts), quoted=encoding.quoted or TripleTerms()), texts


def _together(parts: Sequence[EncodedRows]) -> EncodedRows:
    if len(parts) == 1:
        return parts[0]

    def ints(of: Callable[[EncodedRows], Ints]) -> Ints:
        return np.concatenate([np.empty(0, np.int64), *map(of, parts)])

    def flags(of: Callable[[EncodedRows], NDArray[np.bool_]]) -> NDArray[np.bool_]:
        return np.concatenate([np.empty(0, bool), *map(of, parts)])

    return EncodedRows(
        stream=ints(lambda x: x.stream),
        partition=ints(lambda x: x.partition),
        offset=ints(lambda x: x.offset),
        t=ints(lambda x: x.t),
        line=ints(lambda x: x.line),
        late=flags(lambda x: x.late),
        terms=tuple(ints(lambda x, place=place: x.terms[place]) for place in range(len(parts[0].terms) if parts else 3)),  # type: ignore[misc]
        bad=flags(lambda x: x.bad),
    )


def _of_size(blocks: Iterable[pa.Table | pa.RecordBatch]) -> Iterator[pa.Table]:
    """Many small batches as fewer tables, large ones in slices."""
    held: list[pa.Table] = []
    for block in blocks:
        table = pa.Table.from_batches([block]) if isinstance(block, pa.RecordBatch) else block
        if table.num_rows > BLOCK:
            yield from (table.slice(at, BLOCK) for at in range(0, table.num_rows, BLOCK))
            continue
        held.append(table)
        if sum(part.num_rows for part in held) >= BLOCK:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _whole(rows: pa.Table, streams: Sequence[str], rejected: RejectSpool) -> pa.Table:
    """The rows that have a possible time and a place; the others are rejected (users' DataFrames may have nulls, or other units)."""
    rows = rows.cast(pa.schema([_kept_type(field, rows.schema.field(field.name)) for field in ELEMENT_ROWS]))
    for column, what in (("t", "the time is missing"), ("offset", "its place in the order is missing")):
        if rows.column(column).null_count:
            absent: Any = pc.is_null(rows.column(column))
            for row in rows.filter(absent).to_pylist():
                rejected.append(Rejected(streams[row["stream"]], row["partition"], row["line"] or 0, what))
            rows = rows.filter(pc.invert(absent))
    possible = in_range(rows.column("t").to_numpy())
    if not possible.all():
        for row in rows.filter(pa.array(~possible)).to_pylist():
            why = f"the time {row['t']} is not {EXPECTED}"
            rejected.append(Rejected(streams[row["stream"]], row["partition"], row["line"] or 0, why))
        rows = rows.filter(pa.array(possible))
    return rows


def _kept_type(field: pa.Field[Any], given: pa.Field[Any]) -> pa.Field[Any]:
    """The field of the rows; texts keep their dictionary."""
    return given if pa.types.is_dictionary(given.type) and given.type.value_type == field.type else field


@dataclass(frozen=True, slots=True)
class _Encoding:
    """How terms become ids, the IRIs whose ids are known, and the collector of texts."""

    store: str
    scheme: term_ids.IdScheme
    known: KnownTerms
    texts: Texts
    quoted: TripleTerms | None


def _coded(rows: pa.Table, streams: Sequence[str], encoding: _Encoding, rejected: RejectSpool, graphs: bool) -> EncodedRows:
    stream, partition, offset, t, line = (_ints(rows, name) for name in ("stream", "partition", "offset", "t", "line"))
    terms = _encoded(rows, "spog" if graphs else "spo", encoding)
    bad = (terms[0] == 0) | (terms[1] == 0) | (terms[2] == 0)
    if rows.column("g").null_count < len(bad):
        bad |= _is_named(rows.column("g")) & (terms[3] == 0 if graphs else ~_begins_as_name(rows.column("g")))
    for row in np.flatnonzero(bad).tolist():
        reason = next(found for name in _WHAT if (found := _reason(rows, name, row)))
        rejected.append(Rejected(streams[stream[row]], int(partition[row]), int(line[row]), reason))
    return EncodedRows(stream, partition, offset, t, line, rows.column("late").to_numpy().astype(bool), tuple(terms), bad)


def _is_named(graphs: Any) -> NDArray[np.bool_]:
    """Which rows have the name of a graph; the empty text is none."""
    return mask_of(pc.fill_null(pc.not_equal(graphs, pa.scalar("")), False))


def _begins_as_name(graphs: Any) -> NDArray[np.bool_]:
    """Which names of graphs begin as IRIs or blank nodes do; where no query reads them, nothing more is checked."""
    return mask_of(pc.fill_null(pc.or_(pc.starts_with(graphs, "<"), pc.starts_with(graphs, "_:")), False))


def _ints(rows: pa.Table, column: str) -> Ints:
    return np.asarray(rows.column(column).to_numpy()).astype(np.int64, copy=False)


def _encoded(rows: pa.Table, names: str, encoding: _Encoding) -> list[Ints]:
    """The ids of some columns of terms, 0 where a term is invalid in its column; texts to be kept are added.

    Terms that are not known are encoded for all columns together: most of the time is that of the calls, if there are few.
    """
    columns: list[tuple[Ints, Ints]] = []  # ids of the distinct terms, and which of them each row has
    missing: list[pa.StringArray] = []
    found_rows: list[Ints | None] = []
    for name in names:
        found_rows.append(by_row := encoding.known.of_rows(rows.column(name)))
        left = rows if by_row is None else rows.filter(pa.array(by_row == 0))
        distinct, index = _dictionary(left.column(name))
        ids = encoding.known.of(distinct) if by_row is None and encoding.known and len(distinct) <= MOST_KNOWN else None
        new = distinct if ids is None else distinct.filter(pa.array(ids == 0))
        if len(new) and pc.any(may_have_blank_nodes(new)).as_py():
            new, index = _dictionary(_scoped(left, name))
            ids = None
        columns.append((np.zeros(len(new), np.int64) if ids is None else ids, index))
        missing.append(new)
    if any(map(len, missing)):
        found = _new_ids(names, missing, encoding)
        ends = np.cumsum([len(new) for new in missing])
        for (ids, _), of_column in zip(columns, np.split(found, ends[:-1])):
            ids[ids == 0] = of_column
    whole: list[Ints] = []
    for (ids, index), by_row in zip(columns, found_rows):
        if by_row is None:
            whole.append(ids.take(index))
        else:
            by_row[by_row == 0] = ids.take(index)
            whole.append(by_row)
    return whole


def _new_ids(names: str, terms: Sequence[pa.StringArray], encoding: _Encoding) -> Ints:
    """The ids of the distinct terms of some columns, one column after the other; 0 if a term is invalid in its column."""
    distinct = pa.concat_arrays(terms)
    forms: Any = canonical_texts(distinct)
    ids = np.zeros(len(forms), np.int64)
    which = mask_of(pc.is_valid(forms))
    end = 0
    for name, of_column in zip(names, terms):
        begin, end = end, end + len(of_column)
        if begin < end and name != "o":
            which[begin:end] &= _may_be(name, forms.slice(begin, end - begin))
    kept = forms if which.all() else forms.filter(pa.array(which))
    ids[which] = term_ids.encode(kept, encoding.scheme)
    in_store = _keep(ids[which], kept, encoding.store, encoding.texts)
    if encoding.store and len(distinct) <= MOST_KNOWN:
        some = in_store & (term_ids.kinds(ids[which]) == term_ids.KIND_IRI)
        encoding.known.remember(distinct.filter(pa.array(which)).filter(pa.array(some)), ids[which][some])
    if encoding.quoted is not None and (triples := term_ids.kinds(ids) == term_ids.KIND_QUOTED).any():
        encoding.quoted.add(ids[triples], forms.filter(pa.array(triples)), encoding.store, encoding.scheme, encoding.texts)
    return ids


def _may_be(name: str, forms: Any) -> NDArray[np.bool_]:
    """Which terms may be a subject, a predicate or the name of a graph."""
    if name == "s":
        return ~mask_of(pc.starts_with(forms, '"'))
    triple = mask_of(pc.starts_with(forms, OPENING))
    return ~triple & mask_of(pc.match_substring_regex(forms, "^(<|_:)") if name == "g" else pc.starts_with(forms, "<"))


def _dictionary(column: Any) -> tuple[Any, Ints]:
    """The distinct terms of a column (a missing one is the empty text), and which of them each row has."""
    if pa.types.is_dictionary(column.type) and not column.null_count:
        found: Any = column.unify_dictionaries()
    else:
        found = pc.dictionary_encode(column.cast(pa.string()).fill_null(""))
    found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    return found.dictionary, np.asarray(found.indices.to_numpy(zero_copy_only=False))


def _scoped(rows: pa.Table, name: str) -> Any:
    """Scopes blank nodes to their stream: its number becomes a prefix of their labels. Those emitted by queries have it already."""
    column: Any = rows.column(name).cast(pa.string()).combine_chunks()
    blank: Any = pc.fill_null(pc.starts_with(column, "_:"), False)
    outside: Any = pc.less(rows.column("partition").combine_chunks(), pa.scalar(FED))
    blank = pc.and_(blank, outside)
    parts: list[Any] = ["_:s", rows.column("stream").combine_chunks().cast(pa.string()), "-"]
    renamed = pc.binary_join_element_wise(pc.binary_join_element_wise(*parts, ""), pc.utf8_slice_codeunits(column, 2), "")
    column = pc.if_else(blank, renamed, column)
    inside: Any = pc.and_(pc.fill_null(may_have_blank_nodes_inside(column), False), outside)
    if pc.any(inside).as_py():
        numbers = rows.column("stream").combine_chunks().filter(inside).to_pylist()
        texts = column.filter(inside).to_pylist()
        within = [_scoped_inside(text, f"_:s{number}-") for text, number in zip(texts, numbers)]
        column = pc.replace_with_mask(column, inside, pa.array(within, pa.string()))
    return column


def _scoped_inside(term: str, scope: str) -> str:
    """A triple term with blank nodes scoped to their stream; an invalid one is unchanged and rejected later."""
    try:
        return relabelled(canonical(term), lambda label: f"{scope}{label[2:]}")
    except TermError:
        return term


def _reason(rows: pa.Table, name: str, row: int) -> str:
    """Why a cell is no valid term of its column; empty if it is."""
    what, raw = _WHAT[name], rows.column(name)[row].as_py()
    if name == "g" and not raw:
        return ""
    if raw is None:
        return f"the {what} is missing"
    try:
        form = canonical(raw)
    except TermError as error:
        advice = "" if raw[:1] in ("<", '"', "_") else f"; {how_to_write(raw, as_literal=name == 'o')}"
        return f"the {what} is not an N-Triples term: {error}{advice}"
    if name == "s" and is_literal(form):
        return f"the subject {raw} is a literal"
    if name == "p" and not is_iri(form):
        return f"the predicate {raw} is not an IRI"
    if name == "g" and (is_literal(form) or form.startswith(OPENING)):
        return f"the {what} {raw} is neither an IRI nor a blank node"
    return ""
