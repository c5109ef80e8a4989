"""COUNT, SUM, AVG, MIN, MAX, SAMPLE and GROUP_CONCAT over a bag of terms.

Results do not depend on the order of the rows. Sums are exact and rounded once at the end, so a running total (:class:`Total`) to
which rows are added and from which rows are removed gives the same term as a new sum over the remaining rows.

A member is a term, or None where the argument is unbound or an error (SPARQL 1.1 §18.5.1):

- COUNT skips None. MIN, MAX and SAMPLE ignore it and are unbound if no member is left. (In pyoxigraph, MIN and MAX ignore it or
  are unbound, depending on the version and on the order of the rows.)
- SUM and AVG are unbound if a member is None or not a number, GROUP_CONCAT if a member is None or not a string. Without members
  they are 0, 0 and ``""``.
- MIN, MAX and SAMPLE (the least term) use :func:`~cqels_opt.query.values.order_key`; GROUP_CONCAT concatenates in that order. Its
  result is a simple literal, whatever languages the members have (pyoxigraph keeps a language that all members share).
- AVG of integers and decimals is a decimal; :mod:`cqels_opt.query.numeric` defines its digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

from cqels_opt.query.numeric import EXACT, Number, Single, binary_units, exact_ratio, quotient, single
from cqels_opt.query.values import Text, is_number, order_key, string, term, value

Member: TypeAlias = tuple[str | None, int]
"""A term (None: unbound or error) and its number of occurrences."""
AggregateFunction: TypeAlias = Callable[[Iterable[Member]], str | None]
Kind: TypeAlias = Literal["integer", "decimal", "float", "double", "invalid"]


@dataclass(slots=True)
class Total:
    """A running total of members. Every field is a sum, so members can be added (``times`` > 0) and removed (< 0) in any order.

    ``members`` counts all members and ``bound`` those with a term. The other counters count kinds of numbers and special values.
    ``exact`` is the sum of integers and decimals; ``units`` is the sum of finite floats and doubles in multiples of 2**-1074.
    """

    members: int = 0
    bound: int = 0
    decimals: int = 0
    floats: int = 0
    doubles: int = 0
    invalid: int = 0
    nan: int = 0
    positive_infinite: int = 0
    negative_infinite: int = 0
    exact: Decimal = Decimal(0)
    units: int = 0

    def add(self, member: str | None, times: int = 1) -> None:
        """Adds a member ``times`` times; a negative number removes it."""
        self.members += times
        self.bound += times * (member is not None)
        kind, amount = numeric_parts(member)
        if kind == "invalid":
            self.invalid += times
        elif isinstance(amount, float):
            self._add_float(amount, times)
        else:
            self.decimals += times * (kind == "decimal")
            self.exact = EXACT.fma(Decimal(amount), Decimal(times), self.exact)

    def _add_float(self, amount: float, times: int) -> None:
        if isinstance(amount, Single):
            self.floats += times
        else:
            self.doubles += times
        if math.isnan(amount):
            self.nan += times
        elif math.isinf(amount):
            self.positive_infinite += times * (amount > 0)
            self.negative_infinite += times * (amount < 0)
        else:
            self.units += binary_units(amount) * times

    def count(self) -> str:
        """COUNT of the argument: the number of bound members."""
        return term(self.bound)

    def sum(self) -> str | None:
        """SUM, or None for an error."""
        if self.invalid:
            return None
        return term(self._floating(1) if self.floats or self.doubles else self.exact if self.decimals else int(self.exact))

    def average(self) -> str | None:
        """AVG, or None for an error."""
        if self.invalid:
            return None
        if not self.members:
            return term(0)
        if self.floats or self.doubles:
            return term(self._floating(self.members))
        return term(quotient(self.exact, Decimal(self.members)))

    def _floating(self, divisor: int) -> float:
        if self.nan or (self.positive_infinite and self.negative_infinite):
            result = math.nan
        elif self.positive_infinite or self.negative_infinite:
            result = math.inf if self.positive_infinite else -math.inf
        else:
            result = exact_ratio(self.units, self.exact, divisor)
        return result if self.doubles else single(result)


def numeric_parts(member: str | None) -> tuple[Kind, Number]:
    """The kind of number and the exact value of a member; ``("invalid", 0)`` for a member that cannot be summed."""
    found = None if member is None else value(member)
    if not is_number(found):
        return "invalid", 0
    if isinstance(found, float):
        return ("float" if isinstance(found, Single) else "double"), found
    return ("decimal" if isinstance(found, Decimal) else "integer"), found


def aggregate(function: str, distinct: bool = False, separator: str = " ") -> AggregateFunction:
    """Returns the function that maps a bag of members to the aggregate's term (None: unbound).

    For ``COUNT(*)`` use COUNT with one arbitrary term per row, for ``COUNT(DISTINCT *)`` with one term per distinct row.
    """
    if function == "GROUP_CONCAT":
        return lambda members: _concatenate(_collect(members, distinct), separator)
    chosen = _FUNCTIONS[function]
    return lambda members: chosen(_collect(members, distinct))


def _collect(members: Iterable[Member], distinct: bool) -> list[Member]:
    return [(member, 1) for member in dict.fromkeys(m for m, n in members if n > 0)] if distinct else list(members)


def _total(members: list[Member]) -> Total:
    total = Total()
    for member, times in members:
        total.add(member, times)
    return total


def _count(members: list[Member]) -> str | None:
    return term(sum(times for member, times in members if member is not None))


def _least(members: list[Member]) -> str | None:
    return min((m for m, n in members if m is not None and n > 0), key=order_key, default=None)


def _greatest(members: list[Member]) -> str | None:
    return max((m for m, n in members if m is not None and n > 0), key=order_key, default=None)


def _concatenate(members: list[Member], separator: str) -> str | None:
    pieces: list[Text] = []
    for member, times in sorted(members, key=lambda m: order_key(m[0])):
        found = None if member is None else value(member)
        if times > 0 and not isinstance(found, Text):
            return None
        if isinstance(found, Text):
            pieces.extend([found] * times)
    return string(separator.join(piece.lexical for piece in pieces))


_FUNCTIONS: dict[str, Callable[[list[Member]], str | None]] = {
    "COUNT": _count,
    "SUM": lambda members: _total(members).sum(),
    "AVG": lambda members: _total(members).average(),
    "MIN": _least,
    "MAX": _greatest,
    "SAMPLE": _least,
}
