"""CONSTRUCT: the instances of a triple of the template (SPARQL 1.1 §16.2)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cqels_opt.operators.algebra.operator import RowWise
from cqels_opt.operators.algebra.scope import Names, Schema, Scope
from cqels_opt.operators.rows import Ints, Rows, group_ids
from cqels_opt.operators.term_table import TermTable
from cqels_opt.query.algebra import Variable
from cqels_opt.rdf.ids import KIND_BLANK, KIND_IRI, KIND_QUOTED, KIND_SHIFT
from cqels_opt.rdf.terms import MAX_DEPTH, depth, is_iri, is_literal, triple

TRIPLE = (".s", ".p", ".o")
"""The columns of triples that are answers."""

_MAY_STAND: Final = ((KIND_IRI, KIND_BLANK, KIND_QUOTED), (KIND_IRI,), None)
"""The kinds of terms that may be subject, predicate and object of a triple (triple terms are subjects in RDF-star); None: all."""


@dataclass(frozen=True, slots=True)
class FreshBlank:
    """A blank node of a template: one for each solution, that is, for the values of all variables of the input."""

    label: str
    solution: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuotedPlace:
    """A triple term of a template, made from each row."""

    s: Place
    p: Place
    o: Place


Place: TypeAlias = Variable | int | FreshBlank | QuotedPlace
"""What stands in one place of a template's triple: a variable's value, the id of a constant, a blank node or a triple term."""


@dataclass(frozen=True, slots=True)
class TripleNode(RowWise):
    """A triple of a CONSTRUCT template for each row.

    A row that gives no triple (something is unbound, or of a kind that cannot stand there) is left out.
    """

    places: tuple[Place, Place, Place]

    def output(self, schema: Schema) -> Names:
        """The columns of triples."""
        return frozenset(TRIPLE)

    certain = output

    def below(self, side: int, names: Collection[str], schema: Schema) -> Names:
        """None."""
        return frozenset()

    def apply(self, rows: Rows, scope: Scope) -> Rows:
        """The well-formed triples of the rows."""
        columns = {name: _column(rows, place, scope.terms) for name, place in zip(TRIPLE, self.places)}
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
    """The blank node of each solution. It depends on nothing else, so it is the same at every instant and after a restart."""
    columns = rows.values(blank.solution)
    group, first = group_ids(columns, len(rows))
    texts = zip(*(terms.texts(column[first]) for column in columns)) if columns else [()] * len(first)
    made = [f"_:b{hashlib.sha256(repr((blank.label, *row)).encode()).hexdigest()[:24]}" for row in texts]
    return terms.ids(made)[group] if len(first) else np.zeros(0, np.int64)
