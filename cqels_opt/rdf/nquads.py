"""Parses lines of N-Triples and N-Quads to quads of canonical terms, and reports lines with errors.

A block of lines is split at its blanks with whole-column operations, as if every line had the plain form (no escapes, one blank
between terms). One regular expression then checks the distinct terms; a line with a term that fails is parsed by the full
grammar. So the cost of a block is a few passes over its bytes and one regular expression match per distinct term.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cqels_opt.rdf.canonical import are_plain
from cqels_opt.rdf.quads import NO_GRAPH, Quad, Quads
from cqels_opt.rdf.terms import BLANK_PATTERN, IRI_PATTERN, LITERAL_PATTERN, TermError, canonical, relabelled, term_end
from cqels_opt.rdf.times import mask_of

_NODE = rf"(?:{IRI_PATTERN}|{BLANK_PATTERN})"
# Compiled on first use, by _compiled(): most processes parse no line that needs them, and compiling them takes 50 ms.
_LINE = (
    rf"[ \t]*(?:({_NODE})[ \t]*({IRI_PATTERN})[ \t]*({_NODE}|{LITERAL_PATTERN})[ \t]*({_NODE})?[ \t]*\.)?"
    r"[ \t]*(?:#[^\r\n]*)?\r?\n?"
)
_BEFORE_TRIPLE = rf"[ \t]*({_NODE})[ \t]*({IRI_PATTERN})[ \t]*(?=<<\()"
_AFTER_TRIPLE = rf"[ \t]*({_NODE})?[ \t]*\.[ \t]*(?:#[^\r\n]*)?\r?\n?"
_NEWLINE, _RETURN, _BLANK, _QUOTE, _STOP = b'\n\r ".'

Places = NDArray[np.int64]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def parse_block(block: bytes, scope: int, graph: str | None, quads: bool) -> tuple[Quads, list[tuple[int, str]]]:
    """The quads of whole lines, and for each invalid line its number in the block (from 1) and the error.

    Triples without a graph get ``graph``. Blank nodes are renamed into ``scope``. ``quads`` allows a fourth term.
    """
    begins, ends = _lines(block)
    lines, found = _plain(block, begins, ends, scope, graph, quads)
    rest = np.ones(len(begins), np.bool_)
    rest[lines] = False
    others: list[tuple[int, Quad]] = []
    wrong: list[tuple[int, str]] = []
    for number in np.flatnonzero(rest).tolist():
        if begins[number] < ends[number]:
            try:
                quad = parse_line(block[begins[number] : ends[number]], scope, quads)
            except TermError as error:
                wrong.append((number + 1, str(error)))
                continue
            if quad is not None:
                others.append((number, (*quad[:3], quad[3] or graph)))
    return _merged(lines, found, others), wrong


def _lines(block: bytes) -> tuple[Places, Places]:
    """The begin of each line, and its end without the line terminator."""
    array = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(array == _NEWLINE)
    if len(block) and not block.endswith(b"\n"):
        ends = np.append(ends, len(block))
    begins = np.concatenate([[0], ends[:-1] + 1]).astype(np.int64) if len(ends) else np.empty(0, np.int64)
    returned = (ends > begins) & (array[ends - 1] == _RETURN) if len(ends) else np.empty(0, np.bool_)
    return begins, ends - returned


def _plain(block: bytes, begins: Places, ends: Places, scope: int, graph: str | None, quads: bool) -> tuple[Places, Quads]:
    """The numbers (from 0) of the lines in plain form, and their quads in the same order."""
    if not _is_utf8(block):
        return np.empty(0, np.int64), Quads.of([])
    array = np.frombuffer(block, np.uint8)
    blanks = np.append(np.flatnonzero(array == _BLANK), [len(block)] * 3)
    at = np.searchsorted(blanks, begins)
    first, second, stop = blanks[at], blanks[at + 1], ends - 2
    lines = np.flatnonzero(second < stop)
    lines = lines[(array[ends[lines] - 1] == _STOP) & (array[stop[lines]] == _BLANK)]
    begins, first, second, stop, at = (column[lines] for column in (begins, first, second, stop, at))
    object_end = stop
    if quads:
        # a graph follows the first blank after the object's last quotation mark
        quotes = np.concatenate([[-1], np.flatnonzero(array == _QUOTE)])
        last_quote = quotes[np.searchsorted(quotes, stop) - 1]
        third = blanks[np.where(last_quote > second, np.searchsorted(blanks, last_quote), at + 2)]
        object_end = np.minimum(third, stop)
    named = object_end < stop
    # the terms and the text between them as one array over the block; every second entry is a term
    cuts = np.stack([begins, first, first + 1, second, second + 1, object_end, object_end + named, stop], axis=1)
    offsets = np.append(cuts.ravel(), len(block)).astype(np.int32)
    cells = pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets.data), pa.py_buffer(block))
    rows = np.arange(len(lines)) * 8
    wanted = np.concatenate([rows, rows + 2, rows + 4, rows[named] + 6])
    coded = cells.take(pa.array(wanted)).dictionary_encode()
    terms = cast("pa.StringArray", coded.dictionary)
    given = coded.indices.to_numpy()
    codes = np.full((4, len(lines)), NO_GRAPH, np.int32)
    codes[:3] = given[: 3 * len(lines)].reshape(3, -1)
    codes[3, named] = given[3 * len(lines) :]
    kept = _kept(terms, codes)
    if not kept.all():
        lines, codes = lines[kept], codes[:, kept]
    if graph is not None and (codes[3] == NO_GRAPH).any():
        terms = pa.concat_arrays([_scoped_terms(terms, scope), pa.array([graph], pa.string())])
        codes[3, codes[3] == NO_GRAPH] = len(terms) - 1
    else:
        terms = _scoped_terms(terms, scope)
    return lines, Quads(terms, codes) if kept.all() else Quads(terms, codes).compacted()


def _is_utf8(block: bytes) -> bool:
    try:
        return block.isascii() or bool(block.decode())
    except UnicodeDecodeError:
        return False


def _kept(terms: pa.StringArray, codes: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which quads have only plain terms, each of a kind that is allowed in its position."""
    plain = mask_of(are_plain(terms))
    iri = plain & mask_of(pc.starts_with(terms, "<"))
    # the last entry is the unnamed default graph
    node = np.append(plain & ~mask_of(pc.starts_with(terms, '"')), True)
    s, p, o, g = codes
    kept: NDArray[np.bool_] = node[s] & iri[p] & plain[o] & node[g]
    return kept


def _scoped_terms(terms: pa.StringArray, scope: int) -> pa.StringArray:
    blank = pc.starts_with(terms, "_:")
    if not pc.any(blank).as_py():
        return terms
    return cast("pa.StringArray", pc.if_else(blank, pc.replace_substring(terms, "_:", f"_:f{scope}_", max_replacements=1), terms))


def _merged(lines: Places, plain: Quads, others: Iterable[tuple[int, Quad]]) -> Quads:
    """The quads of plain lines and of other lines, in line order."""
    numbers = [number for number, _ in others]
    if not numbers:
        return plain
    order = np.argsort(np.concatenate([lines, numbers]), kind="stable")
    return Quads.concat([plain, Quads.of([quad for _, quad in others])]).take(order)


def parse_line(raw: bytes, scope: int, quads: bool = True) -> tuple[str, str, str, str | None] | None:
    """The quad of one line of N-Quads (or N-Triples), None for an empty line or comment; raises TermError with the reason."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise TermError(f"not UTF-8: {error.reason} at byte {error.start + 1} of the line") from error
    match = _compiled(_LINE).fullmatch(text)
    found: tuple[str | None, str, str, str | None] | None
    found = _of_triple_term(text) if match is None else cast("tuple[str | None, str, str, str | None]", match.groups())
    if found is None:
        raise TermError(_what_is_wrong(text.rstrip("\r\n"), quads))
    s, p, o, g = found
    if s is None:
        return None
    if g is not None and not quads:
        raise TermError("a fourth term; a file of quads is named .nq")
    if "\\" in text:
        s, p, o = canonical(s), canonical(p), canonical(o)
        g = g and canonical(g)
    elif (o[0] == '"' and (o[-1] != '"' or "\t" in o)) or o.startswith("<<"):
        o = canonical(o)
    return scoped(s, scope), p, scoped(o, scope), None if g is None else scoped(g, scope)


def _of_triple_term(text: str) -> tuple[str, str, str, str | None] | None:
    """The components of a line whose object is a triple term (RDF 1.2), or None."""
    before = _compiled(_BEFORE_TRIPLE).match(text)
    if before is None:
        return None
    end = term_end(text, before.end())
    after = _compiled(_AFTER_TRIPLE).fullmatch(text, end)
    if after is None:
        raise TermError(f"column {end + 1}: expected a full stop at the end of the statement, found {text[end : end + 40]!a}")
    return before[1], before[2], text[before.end() : end], after[1]


def scoped(term: str, scope: int) -> str:
    """A term whose blank nodes are renamed per file, so that files of a load do not share them."""
    return relabelled(term, lambda blank: f"_:f{scope}_{blank[2:]}")


_STEPS = (
    (rf"[ \t]*({_NODE})[ \t]*", "a subject (an IRI in angle brackets or a blank node)"),
    (rf"({IRI_PATTERN})[ \t]*", "a predicate (an IRI in angle brackets)"),
    (rf"({_NODE}|{LITERAL_PATTERN})[ \t]*", "an object (an IRI, a blank node or a literal)"),
    (rf"(?:({_NODE})[ \t]*)?\.", "a full stop at the end of the statement"),
    (r"[ \t]*(?:#[^\r\n]*)?\r?\n?$", "nothing but a comment after the full stop, and no carriage return alone"),
)


def _what_is_wrong(text: str, quads: bool) -> str:
    at = 0
    for pattern, expected in _STEPS:
        match = _compiled(pattern).match(text, at)
        if match is None:
            found = ascii(text[at : at + 40]) if at < len(text) else "the end of the line"
            return f"column {at + 1}: expected {expected}, found {found}"
        at = match.end()
    return "not a statement of N-Quads" if quads else "not a statement of N-Triples"
