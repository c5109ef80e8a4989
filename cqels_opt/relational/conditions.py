"""Parses conditions: the columns that they read, and the equalities to join on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from cqels_opt.errors import InputError

_OPENS = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE}
_CLOSES = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END}


class ColumnReference(NamedTuple):
    """A column of a relation as named in conditions; ``path`` may lead into a struct. Lower case, because Spark ignores case."""

    relation: str
    path: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join((self.relation, *self.path))

    @property
    def sql(self) -> str:
        """Quoted for Spark SQL."""
        return ".".join("`" + part.replace("`", "``") + "`" for part in (self.relation, *self.path))


class JoinFilter(NamedTuple):
    """A condition other than a join equality: its text and the relations that it reads."""

    text: str
    relations: frozenset[str]


def equalities(text: str) -> list[tuple[ColumnReference, ColumnReference]]:
    """The pairs of columns of ``a.x = b.y AND …``. Any other condition is an :class:`InputError` that refers to ``where``."""
    found = []
    parsed = _parsed(text, "on")
    for term in parsed.flatten() if isinstance(parsed, exp.And) else [parsed]:
        sides = [_column(side, text) for side in (term.this, term.expression)] if isinstance(term, exp.EQ) else []
        if len(sides) != 2 or None in sides or len({side.relation for side in sides if side}) != 2:
            raise InputError(
                f"on({text!r}): {term.sql(dialect='spark')} is no equality of columns of two relations; "
                "other conditions go to where(…)"
            )
        left, right = (side for side in sides if side)
        found.append((left, right))
    return found


def filters(text: str) -> list[JoinFilter]:
    """The conjuncts of a condition, each with the relations that it reads."""
    whole = _parsed(text, "where")
    parts = list(_conjuncts(text))
    if not isinstance(whole, exp.And) or len(parts) != len(list(whole.flatten())):
        parts = [text.strip()]
    return [JoinFilter(part, _relations(_parsed(part, "where"), text)) for part in parts]


def _parsed(text: str, where: str) -> exp.Expression:
    try:
        parsed = sqlglot.parse_one(text, dialect="spark")
    except SqlglotError as error:
        known = getattr(error, "errors", None) or [{}]
        place = f" at column {known[0]['col']}" if known[0].get("col") else ""
        what = str(known[0].get("description") or error).splitlines()[0]
        raise InputError(f"{where}({text!r}): this is no condition{place}: {what}") from error
    if not isinstance(parsed, exp.Expression) or parsed.find(exp.Query):
        raise InputError(f"{where}({text!r}): a condition compares columns of the relations; it is no query, and holds none")
    return parsed


def _relations(parsed: exp.Expression, text: str) -> frozenset[str]:
    found = set()
    for column in parsed.find_all(exp.Column):
        if len(column.parts) < 2:
            raise InputError(f"where({text!r}): say of which relation the column {column.name} is, as in relation.{column.name}")
        found.add(column.parts[0].name.lower())
    return frozenset(found)


def _column(side: exp.Expression, text: str) -> ColumnReference | None:
    """The reference of a plain column; None for any other expression."""
    if not isinstance(side, exp.Column):
        return None
    first, *path = (part.name.lower() for part in side.parts)
    if not path:
        raise InputError(f"on({text!r}): say of which relation the column {side.name} is, as in relation.{side.name}")
    return ColumnReference(first, tuple(path))


def _conjuncts(text: str) -> Iterator[str]:
    """The text split at its outermost ANDs, except those of BETWEEN; keeps the user's words for Spark to parse."""
    depth, between, begin = 0, 0, 0
    for token in sqlglot.tokenize(text, dialect="spark"):
        depth += (token.token_type in _OPENS) - (token.token_type in _CLOSES)
        if depth:
            continue
        if token.token_type is TokenType.BETWEEN:
            between += 1
        elif token.token_type is TokenType.AND and between:
            between -= 1
        elif token.token_type is TokenType.AND:
            yield text[begin : token.start].strip()
            begin = token.end + 1
    yield text[begin:].strip()
