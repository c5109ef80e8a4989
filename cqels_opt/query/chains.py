"""Long chains of ``||``, ``&&`` and UNION as balanced trees: what is deep only because it is long would end in a RecursionError.

All three are associative, ``||`` and ``&&`` also where an operand is an error. A chain of :data:`LONG` operands or fewer leans to the left,
as the grammar has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import reduce
from typing import TypeVar

from cqels_opt.errors import QueryError
from cqels_opt.query.algebra import Query

T = TypeVar("T")

MOST_LEVELS = 200
"""Levels of a query: compiling, planning, evaluating and printing it call themselves a few times for each."""

LONG = 32
"""Operands of the longest chain that leans to the left."""


MOST_BRACKETS = 1_000
"""Brackets of a text within one another: they make no level each, but many thousand overflow the stack of the parser's tree."""

_TOKEN = re.compile(r'"""(?:\\.|[^\\])*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|<[^<>\s]*>|#[^\n]*|[(){}\[\]]', re.DOTALL)


def brackets(text: str) -> int:
    """How many brackets of a query are open at once, at most; those in strings, IRIs and comments are none."""
    opened = deepest = 0
    for token in _TOKEN.finditer(text):
        sign = token.group()
        opened += (sign in "({[") - (sign in ")}]")
        deepest = max(deepest, opened)
    return deepest


TOO_DEEP = (
    f"the query is nested too deeply: groups, OPTIONALs, MINUSes, BINDs and operators may hold or follow one another {MOST_LEVELS} levels "
    "deep; chains of ||, && and UNION may be of any length"
)


def levels(root: object) -> int:
    """The levels of a tree of the algebra, expressions included; without recursion."""
    deepest, waiting = 0, [(root, 1)]
    while waiting:
        part, level = waiting.pop()
        if isinstance(part, tuple):
            waiting += [(member, level) for member in part if not isinstance(member, str)]
        elif is_dataclass(part) and not isinstance(part, type):
            deepest = max(deepest, level)
            waiting += [(getattr(part, field.name), level + 1) for field in fields(part)]
    return deepest


def check_levels(query: Query) -> None:
    """QueryError where a query is nested too deeply to be run; it can be parsed and printed."""
    if levels(query.body) > MOST_LEVELS:
        raise QueryError(TOO_DEEP, query.text, 1, 1, query.file)


def chained(operands: Sequence[T], join: Callable[[T, T], T]) -> T:
    """The operands of an associative operator as one tree."""
    if len(operands) <= LONG:
        return reduce(join, operands)
    level = list(operands)
    while len(level) > 1:
        level = [join(*level[i : i + 2]) if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)]
    return level[0]
