"""Builds long chains of ``||``, ``&&`` and UNION as balanced trees, because recursion over a deep tree would overflow the stack.

All three are associative; ``||`` and ``&&`` also where an operand is an error. A chain of at most :data:`LONG` operands stays
left-deep, as the grammar produces it.
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
"""The maximum depth of a query: compiling, planning, evaluating and printing recurse a few calls per level."""

LONG = 32
"""The maximum number of operands of a left-deep chain."""


MOST_BRACKETS = 1_000
"""The maximum nesting of brackets in a text: thousands overflow the stack of the parser's tree, even where they add no level."""

_TOKEN = re.compile(r'"""(?:\\.|[^\\])*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|<[^<>\s]*>|#[^\n]*|[(){}\[\]]', re.DOTALL)


def brackets(text: str) -> int:
    """The maximum number of brackets that are open at once in a query, not counting those in strings, IRIs and comments."""
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
    """The depth of an algebra tree, expressions included; computed without recursion."""
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
    """Raises QueryError if a query is nested too deeply to run. Such a query can still be parsed and printed."""
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
