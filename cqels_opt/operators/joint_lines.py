"""The answers of many queries in one batch as lines of JSON: each term is looked up once, and all lines are put together at once.

The lines are those of :func:`cqels_opt.operators.stream_output.json_lines`, in order of time, then of queries. Work per query would be
mostly calls of Arrow with few rows. Here all answers are rows of one table: each row has the number of a text for the head of its line,
for its query, and for each of its bindings.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cqels_opt.operators.algebra.triple import TRIPLE
from cqels_opt.operators.query_forms import TRUTH
from cqels_opt.operators.rows import Ints
from cqels_opt.operators.stream_output import PIECE, Answers, Codes, TextPool, heads, joined, json_of, numbered, pieces
from cqels_opt.operators.term_table import TermTable
from cqels_opt.stats.frequencies import distinct_values

MOST = 4 * PIECE
"""Answers that are held for one file, so that memory stays bounded. Further queries have files of their own."""
_TEXT = pa.large_string()


@dataclass(frozen=True, slots=True)
class QueryAnswers:
    """The answers of a query, with its name; or with the name for each answer, where several queries share the program."""

    found: Answers
    terms: TermTable
    query: Any


def fits(found: Answers) -> bool:
    """Whether answers can be lines of a joint file: not too many, and neither graphs nor truth values."""
    return found.total <= PIECE and not found.columns.keys() & {TRUTH, TRIPLE[0]}


def joint_lines(answers: Sequence[QueryAnswers]) -> tuple[pa.Buffer, Ints, Ints]:
    """The lines of some answers: their bytes, and the time and the length of each line, in order of time, then of queries."""
    which = [np.concatenate([np.empty(0, np.int64), *pieces(one.found, PIECE)]) for one in answers]
    number = np.repeat(np.arange(len(answers), dtype=np.int32), [len(rows) for rows in which])
    time = np.concatenate([one.found.time[rows] for one, rows in zip(answers, which)])
    order = np.lexsort((number, time))  # stable: the answers of a query stay in their order
    texts, time = TextPool(), time[order]
    columns = [_queries(answers, which, texts), *_bindings(answers, which, texts)]
    tail = np.full(len(time), texts.add(pa.array(["}}\n"], _TEXT)), np.int32)
    data, length = texts.lines([heads(time, ', "op": ', texts), *(codes[order] for codes in columns), tail])
    return data, time, length


def _queries(answers: Sequence[QueryAnswers], which: Sequence[Ints], texts: TextPool) -> Codes:
    """For each line the text between its time and its bindings."""
    found = []
    for one, rows in zip(answers, which):
        if isinstance(one.query, str):
            names, codes = [one.query], np.zeros(len(rows), np.int32)
        else:
            distinct: Any = one.query.dictionary_encode()
            names, codes = distinct.dictionary.to_pylist(), distinct.indices.to_numpy(zero_copy_only=False)[rows]
        shown = [f'{json.dumps(one.found.op)}, "query": {json.dumps(name, ensure_ascii=False)}, "bindings": {{' for name in names]
        found.append(codes + np.int32(texts.add(pa.array(shown, _TEXT))))
    return np.concatenate(found)


@dataclass(frozen=True, slots=True)
class _Shown:
    """The texts of a variable's bindings: from ``first`` on without, and from ``other`` on with a comma before them.

    ``codes`` has the number of each answer's text, counted from these, by query; ``unbound`` is the number of the empty one, if any.
    """

    first: int
    other: int
    codes: dict[int, Codes]
    unbound: int | None


def _bindings(answers: Sequence[QueryAnswers], which: Sequence[Ints], texts: TextPool) -> list[Codes]:
    """For each line the texts of its bindings, in order; empty ones behind the last binding of its query, and for unbound variables."""
    shown = _shown(answers, texts)
    width = max(len(one.found.columns) for one in answers)
    codes = [np.zeros(sum(map(len, which)), np.int32) for _ in range(width)]
    end = 0
    for i, (one, rows) in enumerate(zip(answers, which)):
        begin, end = end, end + len(rows)
        begun: Any = False  # whether an earlier variable is bound, for each answer where they differ
        for place, variable in enumerate(one.found.columns):
            of = shown[_kept_by(one.terms), variable]
            mine = of.codes[i]
            codes[place][begin:end] = (mine + np.where(begun, of.other, of.first).astype(np.int32))[rows]
            begun = begun | (True if of.unbound is None else mine != of.unbound)
    return codes


def _kept_by(terms: TermTable) -> int:
    """Queries whose expressions make no terms have the same terms."""
    return id(terms) if terms.made else 0


def _shown(answers: Sequence[QueryAnswers], texts: TextPool) -> dict[tuple[int, str], _Shown]:
    """The texts of all bindings. The terms of all variables are looked up together."""
    users: dict[int, dict[str, list[int]]] = {}
    for i, one in enumerate(answers):
        for variable in one.found.columns:
            users.setdefault(_kept_by(one.terms), {}).setdefault(variable, []).append(i)
    found: dict[tuple[int, str], _Shown] = {}
    for kept_by, by_variable in users.items():
        coded = {v: numbered(np.concatenate([answers[i].found.columns[v] for i in some])) for v, some in by_variable.items()}
        ids = distinct_values(np.concatenate([distinct for distinct, _ in coded.values()]))
        terms = answers[next(iter(by_variable.values()))[0]].terms
        written = json_of(ids, terms)
        for variable, (distinct, codes) in coded.items():
            here = written.take(pa.array(np.searchsorted(ids, distinct)))
            name = json.dumps(variable, ensure_ascii=False)
            first, other = (texts.add(pc.fill_null(joined(f"{comma}{name}: ", here), "")) for comma in ("", ", "))
            cuts = np.cumsum([len(answers[i].found) for i in by_variable[variable]])[:-1]
            of_query = dict(zip(by_variable[variable], np.split(codes, cuts)))
            unbound = np.flatnonzero(here.is_null().to_numpy(zero_copy_only=False))
            found[kept_by, variable] = _Shown(first, other, of_query, int(unbound[0]) if len(unbound) else None)
    return found
