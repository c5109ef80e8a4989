"""Functions that a query calls by their IRI: those of this project and those that a user registers, each with a declared cost.

They are evaluated a column at a time, each distinct combination of arguments once. What is registered in one process is registered
again wherever a program that calls it is unpacked, so executors know what the driver knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

import numpy as np

from cqels_opt.errors import InputError
from cqels_opt.query.columns import Column, Items, Numbers
from cqels_opt.query.numeric import Number
from cqels_opt.query.values import Item, term, value
from cqels_opt.rdf.terms import canonical

ColumnFunction: TypeAlias = Callable[..., Column]
"""From a column an argument to the column of results, row by row; an error is None, or NaN among numbers."""

DEFAULT_COST: Final = 1e-5
"""Seconds that one call is taken to last where nobody declared it."""

FAILURES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a user's function may raise and is an error of the expression, not of the run."""

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]*")


@dataclass(frozen=True, slots=True)
class Extension:
    """A function by its IRI (in angle brackets): how many arguments it takes, what it computes, and what a call costs in seconds.

    ``least`` and ``most`` bound its arguments (None: any number). ``given`` says that a user registered it.
    """

    name: str
    least: int
    most: int | None
    column: ColumnFunction
    cost: float = DEFAULT_COST
    given: bool = True

    def __reduce__(self) -> tuple[Any, ...]:
        """Where it is unpacked it is registered."""
        return _put, (self.name, self.least, self.most, self.column, self.cost, self.given)


_KNOWN: dict[str, Extension] = {}


def _put(name: str, least: int, most: int | None, column: ColumnFunction, cost: float, given: bool) -> Extension:
    found = _KNOWN[name] = Extension(name, least, most, column, cost, given)
    return found


def extension(name: str) -> Extension | None:
    """The function of an IRI in angle brackets; None: nobody registered it."""
    return _KNOWN.get(name)


def given_functions() -> tuple[Extension, ...]:
    """Those that a user registered."""
    return tuple(found for found in _KNOWN.values() if found.given)


def own_functions(functions: Iterable[tuple[str, int, ColumnFunction, float]]) -> None:
    """Registers functions of this project: IRI, number of arguments, what they compute, and their cost."""
    for iri, arguments, column, cost in functions:
        _put(f"<{iri}>", arguments, arguments, column, cost, False)


def called_once(function: Extension, *arguments: str) -> str | None:
    """What a function gives for some terms; None: an error."""
    (found,) = function.column(*(Items([argument]) for argument in arguments)).items()
    return None if found is None else term(found)


def register_function(
    iri: str,
    function: Callable[..., Any],
    *,
    arguments: int | tuple[int, int | None],
    cost: float = DEFAULT_COST,
    columns: bool = False,
) -> None:
    """Lets queries call a Python function by an IRI. It must always give the same result for the same arguments.

    An argument that is a number or a boolean arrives as that, everything else as N-Triples text (``<http://…>``, ``"text"``,
    ``"…"^^<…>``). So does the result; None, and an ArithmeticError, AttributeError, LookupError, TypeError or ValueError, is an error
    of the expression, as SPARQL has it: a filter drops the row, BIND leaves its variable unbound. ``arguments`` is how many it takes,
    or the least and the greatest number (None: any). ``cost`` is about how many seconds a call takes; filters that call it are placed
    by it until it has been measured. With ``columns`` the function takes numpy arrays, one an argument, and returns one (of float64,
    where NaN is an error, or of objects).

    It is called once for each distinct combination of arguments. Raises InputError for what is no IRI, number of arguments or cost.
    """
    if not _ABSOLUTE.fullmatch(iri):
        raise InputError(f"{iri!r} is no absolute IRI, like http://example.org/function")
    name, (least, most) = f"<{iri}>", arguments if isinstance(arguments, tuple) else (arguments, arguments)
    known = _KNOWN.get(name)
    if known is not None and not known.given:
        raise InputError(f"{iri} is a function of this project's own: register yours under another IRI")
    if least < 0 or (most is not None and most < least):
        raise InputError(f"{iri} cannot take {least} to {most} arguments")
    if not cost > 0:
        raise InputError(f"{iri} cannot cost {cost} seconds: a call takes more than none")
    _put(name, least, most, _OfColumns(function) if columns else _OfValues(function), cost, True)


@dataclass(frozen=True, slots=True)
class _OfValues:
    """A function of single values, called row by row."""

    function: Callable[..., Any]

    def __call__(self, *arguments: Column) -> Column:
        return Items([self._one(row) for row in zip(*(map(_argument, column.items()) for column in arguments))])

    def _one(self, row: Sequence[Any]) -> Item | None:
        if any(item is None for item in row):
            return None
        try:
            return _result(self.function(*row))
        except FAILURES:
            return None


@dataclass(frozen=True, slots=True)
class _OfColumns:
    """A function of arrays; rows with an error among their arguments are kept from it."""

    function: Callable[..., Any]

    def __call__(self, *arguments: Column) -> Column:
        values = [[_argument(item) for item in column.items()] for column in arguments]
        whole = np.array([all(item is not None for item in row) for row in zip(*values)], bool)
        rows = np.flatnonzero(whole)
        found: list[Item | None] = [None] * len(whole)
        if not len(rows):
            return Items(found)
        try:
            results = np.asarray(self.function(*(_array([column[i] for i in rows.tolist()]) for column in values)))
        except FAILURES:
            return Items(found)
        if results.shape != rows.shape:
            raise InputError(f"{self.function!r} gave {results.shape} results for {len(rows)} rows")
        if results.dtype.kind == "f":
            numbers = np.full(len(whole), np.nan)
            numbers[rows] = results
            return Numbers(numbers)
        for place, result in zip(rows.tolist(), results.tolist()):
            found[place] = _result(result)
        return Items(found)


def _array(values: Sequence[Any]) -> Any:
    """Numbers as doubles, everything else as objects."""
    if all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in values):
        return np.array(values, np.float64)
    found = np.empty(len(values), object)
    found[:] = values
    return found


def _argument(item: Item | None) -> Number | str | None:
    found = None if item is None else value(item)
    return found if found is None or isinstance(found, (int, float, Decimal)) else str(item)


def _result(found: Any) -> Item | None:
    """What a user's function returned, as an item."""
    if found is None or (isinstance(found, float) and found != found):
        return None
    if isinstance(found, str):
        return canonical(found)
    if isinstance(found, (int, float, Decimal)):
        return found
    raise TypeError(f"{type(found).__name__} is no term")
