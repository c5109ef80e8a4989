"""Functions that a query calls by IRI, built-in or registered by a user, each with a declared cost.

They are evaluated per column, once per distinct combination of arguments. A registered function is registered again wherever a
program that calls it is unpickled, so executors have the functions of the driver.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cqels_opt.errors import InputError, check_flags
from cqels_opt.query.columns import Column, Items, Numbers
from cqels_opt.query.numeric import Number
from cqels_opt.query.values import Item, term, value
from cqels_opt.rdf.terms import XSD, canonical

ColumnFunction: TypeAlias = Callable[..., Column]
"""Maps one column per argument to the column of results, row by row; an error is None, or NaN among numbers."""

DEFAULT_COST: Final = 1e-5
"""The assumed duration of one call in seconds if no cost was declared."""

FAILURES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions of a user's function that are errors of the expression, not of the run."""

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]*")


@dataclass(frozen=True, slots=True)
class Extension:
    """A function: its IRI in angle brackets, the number of its arguments, its implementation and the cost of a call in seconds.

    ``least`` and ``most`` bound the number of arguments (None: any number). ``version`` is 0 for a built-in function. Of the functions
    that a user registers under one IRI the first one has 1.
    """

    name: str
    least: int
    most: int | None
    column: ColumnFunction
    cost: float = DEFAULT_COST
    version: int = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Unpickling registers the function."""
        return _register, (self.name, self.least, self.most, self.column, self.cost, self.version)


_KNOWN: dict[str, Extension] = {}
_VERSIONS: dict[tuple[str, int], Extension] = {}


def _register(name: str, least: int, most: int | None, column: ColumnFunction, cost: float, version: int) -> Extension:
    found = _VERSIONS[name, version] = Extension(name, least, most, column, cost, version)
    if name not in _KNOWN or _KNOWN[name].version <= version:  # a program may be unpickled later than a newer one
        _KNOWN[name] = found
    return found


def extension(name: str, version: int = 0) -> Extension | None:
    """The function of an IRI in angle brackets, by default the newest one; None if it is not registered."""
    return _VERSIONS.get((name, version)) if version else _KNOWN.get(name)


def registered_functions() -> tuple[Extension, ...]:
    """The functions that a user registered."""
    return tuple(found for found in _KNOWN.values() if found.version)


def register_builtins(functions: Iterable[tuple[str, int, ColumnFunction, float]]) -> None:
    """Registers built-in functions: IRI, number of arguments, implementation and cost in seconds."""
    for iri, arguments, column, cost in functions:
        _register(f"<{iri}>", arguments, arguments, column, cost, 0)


def called_once(function: Extension, *arguments: str) -> str | None:
    """The function's result for single terms; None for an error."""
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
    """Lets queries call a Python function by an IRI. The function must always give the same result for the same arguments.

    A number or a boolean is passed as a Python value, any other term as N-Triples text (``<http://…>``, ``"text"``,
    ``"…"^^<…>``). The result has the same form. None, and an ArithmeticError, AttributeError, LookupError, TypeError or
    ValueError, is an error of the expression, as in SPARQL: a filter drops the row, BIND leaves its variable unbound.
    ``arguments`` is the number of arguments, or the least and the greatest number (None: any). ``cost`` is the approximate
    duration of a call in seconds; the optimizer places filters that call the function by this cost until it has been measured.
    With ``columns`` the function takes one numpy array per argument and returns one array (of float64, where NaN is an error, or
    of objects). An argument's array is of float64 if its values are integers or doubles, and of objects otherwise: rows of both kinds are
    passed in two calls. Where the function raises one of these errors, it is called again with fewer rows.

    The function is called once per distinct combination of arguments, and a call has at least one. A query keeps the function that its
    IRI had when the query was registered, if you register another one under this IRI later. Raises InputError for an invalid IRI,
    number of arguments or cost.
    """
    if not isinstance(iri, str) or not _ABSOLUTE.fullmatch(iri):
        raise InputError(f"{iri!r} is no absolute IRI, like http://example.org/function")
    if not callable(function):
        raise InputError(f"{iri}: a function is expected, not {type(function).__name__}")
    if not _are_numbers(arguments):
        raise InputError(f"{iri}: arguments={arguments!r}: give their number, or the least and the greatest, as in (1, 2)")
    if not isinstance(cost, int | float):
        raise InputError(f"{iri}: cost={cost!r}: a number of seconds is expected")
    check_flags(columns=columns)
    name, (least, most) = f"<{iri}>", arguments if isinstance(arguments, tuple) else (arguments, arguments)
    known = _KNOWN.get(name)
    if (known is not None and not known.version) or name.startswith(f"<{XSD}"):
        raise InputError(f"{iri} is a function of this project's own: register yours under another IRI")
    if least < 0 or (most is not None and most < max(least, 1)):
        raise InputError(f"{iri} cannot take {least} to {most} arguments")
    if not cost > 0:
        raise InputError(f"{iri} cannot cost {cost} seconds: a call takes more than none")
    given = Extension(name, max(least, 1), most, _OfColumns(function) if columns else _OfValues(function), cost)
    if known is None or replace(known, version=0) != given:
        _register(name, given.least, most, given.column, cost, 1 if known is None else known.version + 1)


def _are_numbers(arguments: object) -> bool:
    match arguments:
        case int() | (int(), int() | None):
            return True
    return False


@dataclass(frozen=True, slots=True)
class _OfValues:
    """A function of single values, called once per row."""

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
    """A function of arrays; rows with an error among their arguments are not passed to it.

    The result for a row does not depend on the rows around it: arrays are of one kind each, and rows among which the function fails are
    passed again in halves, so that only those fail for which it fails alone.
    """

    function: Callable[..., Any]

    def __call__(self, *arguments: Column) -> Column:
        rows = [*zip(*([_argument(item) for item in column.items()] for column in arguments))]
        kinds: dict[tuple[bool, ...], list[int]] = {}
        for place, row in enumerate(rows):
            if not any(item is None for item in row):
                kinds.setdefault(tuple(map(_is_double, row)), []).append(place)
        parts = [part for kind, places in kinds.items() for part in self._parts(rows, kind, places)]
        if all(results.dtype.kind == "f" for _, results in parts):
            numbers = np.full(len(rows), np.nan)
            for places, results in parts:
                numbers[places] = results
            return Numbers(numbers)
        found: list[Item | None] = [None] * len(rows)
        for places, results in parts:
            for place, result in zip(places, results.tolist()):
                with suppress(*FAILURES):
                    found[place] = _result(result)
        return Items(found)

    def _parts(
        self, rows: Sequence[Sequence[Any]], kind: tuple[bool, ...], places: list[int]
    ) -> Iterator[tuple[list[int], NDArray[Any]]]:
        """The results for the rows at some places, without those for which the function fails."""
        columns = zip(*(rows[place] for place in places))
        try:
            made = self.function(*(_array(column, double) for column, double in zip(columns, kind)))
            results = _array(made, double=False) if isinstance(made, (list, tuple)) else np.asarray(made)
        except FAILURES:
            half = len(places) // 2
            for part in (places[:half], places[half:]) if half else ():
                yield from self._parts(rows, kind, part)
            return
        if results.shape != (len(places),):
            raise InputError(f"{self.function!r} gave {results.shape} results for {len(places)} rows")
        yield places, results


def _is_double(value: Any) -> bool:
    """Whether functions of columns get a value as a double."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _array(values: Sequence[Any], double: bool) -> NDArray[Any]:
    """Values as an array of doubles, or of objects."""
    if double:
        return np.array(values, np.float64)
    found = np.empty(len(values), object)
    found[:] = values
    return found


def _argument(item: Item | None) -> Number | str | None:
    found = None if item is None else value(item)
    return found if found is None or isinstance(found, (int, float, Decimal)) else str(item)


def _result(found: Any) -> Item | None:
    """The return value of a user's function as an item."""
    if isinstance(found, np.generic):
        found = found.item()
    if found is None or (isinstance(found, float) and found != found) or (isinstance(found, Decimal) and not found.is_finite()):
        return None
    if isinstance(found, str):
        return canonical(found)
    if isinstance(found, (int, float, Decimal)):
        return found
    raise TypeError(f"{type(found).__name__} is no term")
