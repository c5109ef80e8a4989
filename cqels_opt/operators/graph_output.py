"""The answers of CONSTRUCT, DESCRIBE and ASK as lines of JSON: one graph, or one truth value, per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from cqels_opt.lod.order import run_starts
from cqels_opt.operators.algebra.triple import TRIPLE
from cqels_opt.operators.query_forms import TRUTH
from cqels_opt.operators.rows import Ints
from cqels_opt.operators.stream_output import Answers, json_lines
from cqels_opt.operators.term_table import TermTable
from cqels_opt.rdf.ids import TRUE_ID

Lines = Iterator[tuple[pa.Buffer, Ints, Ints]]

TOGETHER = 1 << 13
"""Triples whose terms are looked up together, about."""


def lines(found: Answers, terms: TermTable, query: Any = None) -> Lines:
    """The answers of any query, some lines at a time: the bytes, and the time and the length of each line.

    ``query`` is the name of the query in all lines, or an array with the name for each answer; None: lines have no name.
    """
    if query is not None and not isinstance(query, str):
        return json_lines(found, terms, queries=query)
    op = f'"{found.op}"' + (f', "query": {json.dumps(query, ensure_ascii=False)}' if query is not None else "")
    if TRUTH in found.columns:
        return _truths(found, op)
    if TRIPLE[0] in found.columns:
        return _graphs(found, terms, op)
    return json_lines(found, terms, op=op)


def _truths(found: Answers, op: str) -> Lines:
    truths = found.columns[TRUTH] == TRUE_ID
    yield _encoded(op, [f'"boolean": {str(truth).lower()}' for truth in truths.tolist()], found.time)


def _graphs(found: Answers, terms: TermTable, op: str) -> Lines:
    """One line per instant, with its triples in the order of their terms. The terms of some instants are looked up together."""
    if not len(found):
        return
    begins = run_starts((found.time,))
    ends = np.append(begins[1:], len(found))
    # the first instant that ends behind a multiple of TOGETHER begins the next lines
    for some in np.split(np.arange(len(begins)), np.flatnonzero(np.diff(ends // TOGETHER)) + 1):
        first, upto = int(begins[some[0]]), int(ends[some[-1]])
        triples = [*zip(*(terms.texts(found.columns[name][first:upto]) for name in TRIPLE))]
        places = zip((begins[some] - first).tolist(), (ends[some] - first).tolist())
        graphs = [json.dumps(sorted(triples[begin:end]), ensure_ascii=False) for begin, end in places]
        yield _encoded(op, [f'"triples": {graph}' for graph in graphs], found.time[begins[some]])


def _encoded(op: str, members: list[str], time: Ints) -> tuple[pa.Buffer, Ints, Ints]:
    whole = [f'{{"time": {at}, "op": {op}, {member}}}\n'.encode() for at, member in zip(time.tolist(), members)]
    return pa.py_buffer(b"".join(whole)), time, np.array([len(line) for line in whole], np.int64)
