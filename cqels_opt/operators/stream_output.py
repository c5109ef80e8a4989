"""The answers that a step emits, as lines of JSON and as columns of terms."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cqels_opt.lod.multiplicities import summed, total
from cqels_opt.operators.rows import UNBOUND, Ints
from cqels_opt.operators.term_table import TermTable
from cqels_opt.rdf import terms as rdf_terms
from cqels_opt.stats.frequencies import distinct_values

PIECE = 1 << 17  # answers written at a time
MOST_KNOWN = 1 << 18
"""The maximum number of terms of the store whose JSON is kept."""
ONE_BY_ONE = 48
"""Up to this number, terms are written as JSON one by one, which then takes less time than whole columns."""
_LINE = pa.large_string()

Codes: TypeAlias = NDArray[np.int32]
"""Numbers of texts."""


@dataclass(slots=True)
class Answers:
    """Answers in order of time: the instant, the multiplicity, and a column of ids for each variable."""

    time: Ints
    n: Ints
    columns: dict[str, Ints]
    op: str

    def __len__(self) -> int:
        return len(self.time)

    @property
    def total(self) -> int:
        """The number of answers, with multiplicity."""
        return total(self.n)


def json_term(term: str) -> dict[str, Any]:
    """A term as in SPARQL 1.1 JSON results; base directions and triple terms as in those of 1.2."""
    if rdf_terms.is_triple(term):
        parts = zip(("subject", "predicate", "object"), rdf_terms.triple_parts(term))
        return {"type": "triple", "value": {name: json_term(part) for name, part in parts}}
    if rdf_terms.is_iri(term):
        return {"type": "uri", "value": rdf_terms.iri_value(term)}
    if rdf_terms.is_blank(term):
        return {"type": "bnode", "value": term[2:]}
    lexical, datatype, language = rdf_terms.literal_parts(term)
    found: dict[str, Any] = {"type": "literal", "value": lexical}
    if language:
        found["xml:lang"], direction = rdf_terms.tag_parts(language)
        if direction:
            found["its:dir"] = direction
    elif datatype != rdf_terms.XSD_STRING:
        found["datatype"] = datatype
    return found


def json_terms(texts: pa.StringArray | Sequence[str | None]) -> pa.LargeStringArray:
    """:func:`json_term` of many terms as JSON texts; null where one is unbound (None, or the empty text).

    Canonical text has the escapes of JSON, so nearly all terms need only a prefix and a suffix; terms with a raw control character, and
    triple terms, are written one by one, and so are few terms.
    """
    if len(texts) <= ONE_BY_ONE:
        few = texts.to_pylist() if isinstance(texts, pa.Array) else texts
        return pa.array([_written(text) if text else None for text in few], _LINE)
    array: Any = texts.cast(_LINE) if isinstance(texts, pa.Array) else pa.array([text or "" for text in texts], _LINE)
    raw: Any = pc.or_(pc.match_substring_regex(array, r"[\x00-\x1f]"), pc.starts_with(array, rdf_terms.OPENING))
    kinds = [(raw, pa.array([*map(_written, array.filter(raw).to_pylist())], _LINE))]
    left = pc.and_not(pc.not_equal(array, pa.scalar("", _LINE)), raw)
    for begins, ends, shown in _JSON:
        if not pc.any(left).as_py():
            break
        mine = pc.and_(left, pc.and_(pc.starts_with(array, begins), pc.ends_with(array, ends)))
        left = pc.and_not(left, mine)
        kinds.append((mine, shown(array.filter(mine))))
    places = np.concatenate([np.flatnonzero(mine.to_numpy(zero_copy_only=False)) for mine, _ in kinds])
    order = np.full(len(array), -1, np.int64)
    order[places] = np.arange(len(places))
    which: Any = pa.array(order, mask=order < 0)
    return pa.concat_arrays([part for _, part in kinds]).take(which)


def _written(text: str) -> str:
    return json.dumps(json_term(text), ensure_ascii=False)


def joined(*parts: Any) -> Any:
    """Texts and arrays of texts, concatenated row by row; null where one of them is."""
    whole = [pa.scalar(part, _LINE) if isinstance(part, str) else part for part in (*parts, "")]
    return pc.binary_join_element_wise(*whole)


def _directed(way: str, texts: Any) -> Any:
    begin, tagged = r'{"type": "literal", "value": ', rf'\1, "xml:lang": "\2", "its:dir": "{way}"}}'
    return pc.replace_substring_regex(texts, rf'^(".*")@([^"]*)--{way}$', begin + tagged)


_JSON: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("<", ">", lambda t: joined('{"type": "uri", "value": "', pc.utf8_slice_codeunits(t, 1, -1), '"}')),
    ("_:", "", lambda t: joined('{"type": "bnode", "value": "', pc.utf8_slice_codeunits(t, 2), '"}')),
    ('"', '"', lambda t: joined('{"type": "literal", "value": ', t, "}")),
    ('"', ">", lambda t: _tagged(t, r'^(".*")\^\^<([^"]*)>$', "datatype")),
    *(('"', f"--{way}", partial(_directed, way)) for way in ("ltr", "rtl")),
    ('"', "", lambda t: _tagged(t, r'^(".*")@([^"]*)$', "xml:lang")),
)
"""The beginning and end of canonical terms, and the function that writes these as JSON."""


def _tagged(texts: Any, pattern: str, tag: str) -> Any:
    return pc.replace_substring_regex(texts, pattern, rf'{{"type": "literal", "value": \1, "{tag}": "\2"}}')


class TextPool:
    """Distinct texts by number, of which the lines of answers consist; number 0 is the empty text."""

    def __init__(self) -> None:
        self._arrays: list[Any] = [pa.array([""], _LINE)]
        self._size = 1

    def add(self, texts: Any) -> int:
        """Adds texts; returns the number of the first."""
        self._arrays.append(texts)
        self._size += len(texts)
        return self._size - len(texts)

    def lines(self, columns: Sequence[Codes]) -> tuple[pa.Buffer, Ints]:
        """Lines that have a text of each column: their bytes, and the length of each.

        The texts of all lines are taken at once, so the bytes are copied once: Arrow puts one text behind the other.
        """
        self._arrays = [pa.concat_arrays(self._arrays)]
        taken = self._arrays[0].take(pa.array(np.stack(columns, axis=1).ravel()))
        _, offsets, data = taken.buffers()
        return data, np.diff(np.frombuffer(offsets, np.int64)[: len(taken) + 1 : len(columns)])


def numbered(ids: Ints) -> tuple[Ints, Codes]:
    """The distinct ids, and for each id its place among them."""
    encoded: Any = pa.array(ids).dictionary_encode()
    return encoded.dictionary.to_numpy(), encoded.indices.to_numpy(zero_copy_only=False)


def heads(time: Ints, after_time: str, texts: TextPool) -> Codes:
    """The beginning of each line, up to what is ``after_time``. Times are in order."""
    begins = np.append(len(time) > 0, time[1:] != time[:-1])[: len(time)]
    first = texts.add(joined('{"time": ', pa.array(time[begins]).cast(_LINE), after_time))
    return (np.cumsum(begins) + (first - 1)).astype(np.int32)


def json_lines(
    found: Answers, terms: TermTable, size: int = PIECE, op: str | None = None, queries: Any = None
) -> Iterator[tuple[pa.Buffer, Ints, Ints]]:
    """The answers as lines of JSON, one line per occurrence, some at a time: the bytes, and the time and the length of each line.

    ``op`` is the JSON between the time and the bindings, by default the operator. ``queries`` names the query of each answer, where
    several queries share the program.
    """
    texts, rest = TextPool(), ', "bindings": {'
    after_time = f', "op": {op or json.dumps(found.op)}'
    columns = [heads(found.time, after_time if queries is not None else after_time + rest, texts)]
    if queries is not None:
        each: Any = queries.dictionary_encode()
        names = [f', "query": {json.dumps(name, ensure_ascii=False)}{rest}' for name in each.dictionary.to_pylist()]
        columns.append(each.indices.to_numpy(zero_copy_only=False) + np.int32(texts.add(pa.array(names, _LINE))))
    columns += _bindings(found, terms, texts)
    columns.append(np.full(len(found), texts.add(pa.array(["}}\n"], _LINE)), np.int32))
    for which in pieces(found, size):
        data, length = texts.lines([column[which] for column in columns])
        yield data, found.time[which], length


def _bindings(found: Answers, terms: TermTable, texts: TextPool) -> Iterator[Codes]:
    """For each answer the number of the text of each variable, with a comma if another one is bound before it; 0 if it is unbound."""
    begun: Any = False  # whether an earlier variable is bound; for each answer where they differ
    columns = {variable: numbered(ids) for variable, ids in found.columns.items()}
    every = distinct_values(np.concatenate([np.empty(0, np.int64), *(distinct for distinct, _ in columns.values())]))
    every_text = json_of(every, terms)  # of all columns together: most of the time is that of the calls, if there are few terms
    for variable, (distinct, codes) in columns.items():
        shown = every_text.take(pa.array(np.searchsorted(every, distinct)))
        name = json.dumps(variable, ensure_ascii=False)
        first = 0 if begun is True else texts.add(pc.fill_null(joined(f"{name}: ", shown), ""))
        other = 0 if begun is False else texts.add(pc.fill_null(joined(f", {name}: ", shown), ""))
        yield codes + np.where(begun, other, first).astype(np.int32)
        begun = begun | (True if not shown.null_count else found.columns[variable] != UNBOUND)


def by_instant(time: Ints, length: Ints) -> Ints:
    """For each instant of lines in order of time: its time, and the bytes of its lines."""
    edges = np.flatnonzero(np.append(True, time[1:] != time[:-1]))
    return np.stack([time[edges], np.add.reduceat(length, edges)], axis=1)


def json_of(ids: Ints, terms: TermTable) -> Any:
    """Distinct terms as JSON texts; null where unbound. Those of the store are written once per process, as long as they are few."""
    known = terms.json
    found = [*map(known.get, ids.tolist())]
    missing = np.array([place for place, text in enumerate(found) if text is None], np.int64)
    if not len(missing):
        return pa.array(found, _LINE)
    column = terms.column(ids[missing])
    made: Any = json_terms(column)
    of_store = terms.of_store
    new = [place for place, number in enumerate(ids[missing].tolist()) if number in of_store]
    if new and len(missing) <= MOST_KNOWN:
        if len(known) + len(new) > MOST_KNOWN:
            known.clear()
        known.update(zip(ids[missing[new]].tolist(), made.take(pa.array(new)).to_pylist()))
    if len(missing) == len(ids):
        return made
    order = np.arange(len(ids))
    order[missing] = len(ids) + np.arange(len(missing))
    return pa.concat_arrays([pa.array(found, _LINE), made]).take(pa.array(order))


def columns_of(found: Answers, terms: TermTable, size: int = PIECE) -> Iterator[tuple[Ints, dict[str, Any]]]:
    """The times of the answers and, for each variable, a column of terms (null: unbound), with multiplicity; some at a time.

    The columns have dictionaries.
    """
    columns: dict[str, tuple[Any, Codes, Any]] = {}
    for variable, ids in found.columns.items():
        distinct, codes = numbered(ids)
        unbound = ids == UNBOUND  # Parquet takes no null in a dictionary
        columns[variable] = terms.column(distinct), codes, unbound if unbound.any() else None
    for which in pieces(found, size):
        cells = {}
        for variable, (texts, codes, unbound) in columns.items():
            places: Any = pa.array(codes.take(which), mask=None if unbound is None else unbound.take(which))
            cells[variable] = pa.DictionaryArray.from_arrays(places, texts)
        yield found.time[which], cells


def pieces(found: Answers, size: int) -> Iterator[Ints]:
    """The number of the answer in each row of the output, where answers are repeated by multiplicity; ``size`` rows at a time."""
    total = found.total
    if total == len(found) and bool((found.n == 1).all()):
        yield from (np.arange(begin, min(begin + size, total)) for begin in range(0, total, size))
        return
    ends = summed(found.n, np.cumsum)
    for begin in range(0, total, size):
        end = min(begin + size, total)
        first, last = np.searchsorted(ends, [begin, end - 1], "right").tolist()
        of = np.arange(first, last + 1)
        yield np.repeat(of, np.minimum(ends[of], end) - np.maximum(ends[of] - found.n[of], begin))


def column_names(variables: Sequence[str], also: Sequence[str] = ()) -> dict[str, str]:
    """The DataFrame column of each variable; a name that clashes without regard to case gets ``_2``, ``_3`` …

    The names ``time``, ``op``, ``query`` and those in ``also`` are reserved. Columns of answers that are not variables of the query
    (``.s``) have their name without the full stop.
    """
    taken = {"time", "op", "query", *also}
    names = {}
    for variable in variables:
        plain = variable.removeprefix(".")
        name, number = plain, 2
        while name.lower() in taken:
            name, number = f"{plain}_{number}", number + 1
        taken.add(name.lower())
        names[variable] = name
    return names
