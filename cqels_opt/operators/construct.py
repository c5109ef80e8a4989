"""Triples as answers: the instances of a CONSTRUCT template, and descriptions of resources, on interval rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cqels_opt.operators.compiled_query import TRIPLE, FreshBlank, Place, QuotedPlace
from cqels_opt.operators.interval_join import disjoint, join
from cqels_opt.operators.rows import Ints, Rows, concat, empty, group_ids
from cqels_opt.operators.semijoin_filter import KeyFilter
from cqels_opt.operators.term_table import TermTable
from cqels_opt.query.algebra import Variable
from cqels_opt.rdf.ids import KIND_BLANK, KIND_IRI, KIND_QUOTED, KIND_SHIFT
from cqels_opt.rdf.terms import MAX_DEPTH, depth, is_iri, is_literal, triple

_MAY_STAND: Final = ((KIND_IRI, KIND_BLANK, KIND_QUOTED), (KIND_IRI,), None)
"""The kinds of terms that may be subject, predicate and object of a triple (triple terms are subjects in RDF-star); None: all."""


def instantiated(rows: Rows, places: Sequence[Place], terms: TermTable) -> Rows:
    """A triple for each row, as far as the row gives one (SPARQL 1.1 §16.2: ill-formed ones are left out)."""
    columns = {name: _column(rows, place, terms) for name, place in zip(TRIPLE, places)}
    well_formed = np.ones(len(rows), bool)
    for name, kinds in zip(TRIPLE, _MAY_STAND):
        well_formed &= may_stand(columns[name], kinds)
    return Rows(columns, rows.start, rows.end, rows.n).take(well_formed)


def may_stand(ids: Ints, kinds: Sequence[int] | None) -> NDArray[np.bool_]:
    """Which of the ids are bound, and of one of these kinds (None: any)."""
    bound: NDArray[np.bool_] = ids != 0 if kinds is None else np.isin(ids >> KIND_SHIFT, kinds)
    return bound


def _column(rows: Rows, place: Place, terms: TermTable) -> Ints:
    if isinstance(place, Variable):
        return rows.columns.get(place.name, np.zeros(len(rows), np.int64))
    if isinstance(place, FreshBlank):
        return _fresh(rows, place, terms)
    if isinstance(place, QuotedPlace):
        return _quoted([_column(rows, part, terms) for part in (place.s, place.p, place.o)], len(rows), terms)
    return np.full(len(rows), place, np.int64)


def _quoted(parts: Sequence[Ints], rows: int, terms: TermTable) -> Ints:
    """The triple terms of three columns; 0 where they give none."""
    group, first = group_ids(list(parts), rows)
    texts = zip(*(terms.texts(column[first]) for column in parts)) if rows else ()
    made = [_triple(s, p, o) for s, p, o in texts]
    return terms.ids(made)[group] if rows else np.zeros(0, np.int64)


def _triple(s: str | None, p: str | None, o: str | None) -> str | None:
    if s is None or p is None or o is None or is_literal(s) or not is_iri(p) or max(depth(s), depth(o)) >= MAX_DEPTH:
        return None
    return triple(s, p, o)


def _fresh(rows: Rows, blank: FreshBlank, terms: TermTable) -> Ints:
    """The blank node of each solution. It hangs on nothing else, so it is the same from instant to instant and after a restart."""
    columns = rows.values(blank.solution)
    group, first = group_ids(columns, len(rows))
    texts = zip(*(terms.texts(column[first]) for column in columns)) if columns else [()] * len(first)
    made = [f"_:b{hashlib.sha256(repr((blank.label, *row)).encode()).hexdigest()[:24]}" for row in texts]
    return terms.ids(made)[group] if len(first) else np.zeros(0, np.int64)


def described(resources: Rows, graph: Callable[[KeyFilter], Rows], variables: Sequence[str]) -> Rows:
    """The triples about the values of some variables and, from blank nodes in their object places, on.

    ``graph`` gives the triples that have some subjects.
    """
    subject, _, item = TRIPLE
    asked = [Rows({subject: column}, resources.start, resources.end, resources.n) for column in resources.values(variables)]
    reached = disjoint(concat([empty([subject]), *asked]))
    reached = reached.take(reached.columns[subject] != 0)
    while True:
        found = join(reached, graph(KeyFilter.of(reached, [subject]))).only(TRIPLE)
        blank = found.take(may_stand(found.columns[item], (KIND_BLANK,)))
        onward = Rows({subject: blank.columns[item]}, blank.start, blank.end, blank.n)
        wider = disjoint(concat([reached, onward]))
        if _extent(wider) == _extent(reached):
            return found
        reached = wider


def _extent(rows: Rows) -> int:
    """How long the rows are valid in all: disjoint rows that only grow have grown if this has."""
    return int((rows.end - rows.start).sum())
