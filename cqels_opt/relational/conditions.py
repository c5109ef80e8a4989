"""Parses conditions: the join keys of their equalities, and the relations that the others read.

The words of the user are kept for Spark to parse; this module only reads where they are cut and which relations they name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from cqels_opt.errors import InputError
from cqels_opt.relational.column_names import quoted

_CLASS = re.compile(r"Required keyword: .*")
"""What the parser says of an operator without an operand, in terms of its own classes."""
_OPENS = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE}
_CLOSES = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END}
_COMPARISONS = {
    *(TokenType.LT, TokenType.GT, TokenType.LTE, TokenType.GTE, TokenType.NEQ, TokenType.NULLSAFE_EQ),
    *(TokenType.IN, TokenType.BETWEEN, TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE, TokenType.IS, TokenType.NOT),
}
"""Operators that Spark applies to an equality before them, and the parser to its right side: ``a = b < c`` is ``(a = b) < c``."""


class JoinKey(NamedTuple):
    """An expression over the columns of one relation that is equal to one of another relation.

    ``label`` is a column, in lower case because Spark ignores case, with the path within it, or the text of an expression in lower case.
    ``sql`` is for Spark, with each column after the name of its relation. Expressions that differ in case are different keys.
    """

    relation: str
    label: tuple[str, ...]
    sql: str

    def __str__(self) -> str:
        return ".".join((self.relation, *self.label)) if self.is_column else self.sql

    @property
    def is_column(self) -> bool:
        """Whether it is a column and not an expression."""
        return self.sql == quoted(self.relation, *self.label)


class Condition(NamedTuple):
    """A condition: its text, the relations that it reads, and its two keys if it is an equality of keys of two relations."""

    text: str
    relations: frozenset[str]
    keys: tuple[JoinKey, JoinKey] | None = None


def parsed(text: str, where: str) -> list[Condition]:
    """The conjuncts of a condition. InputError if it is no condition, or if a column is without its relation."""
    return [_condition(part, text, where) for part in _parts(text, where)]


def _parts(text: str, where: str) -> Iterator[str]:
    """The conjuncts of a condition, without brackets around them."""
    tree, text = _tree(text, where), text.strip()
    if isinstance(tree, exp.Paren) and text.startswith("("):
        yield from _parts(text[1:-1], where)
        return
    parts = list(_conjuncts(text))
    if isinstance(tree, exp.And) and len(parts) == len(list(tree.flatten(unnest=False))):
        for part in parts:
            yield from _parts(part, where)
    else:
        yield text


def _condition(part: str, text: str, where: str) -> Condition:
    tree = _tree(part, where)
    relations = _relations(tree, text, where)
    if isinstance(tree, exp.EQ) and (sides := _sides(part)) is not None:
        one, other = (_key(side, text, where) for side in sides)
        if one is not None and other is not None and one.relation != other.relation:
            return Condition(part, relations, (one, other))
    return Condition(part, relations)


def _key(side: str, text: str, where: str) -> JoinKey | None:
    """The key that one side of an equality is; None if it reads no relation, or several."""
    tree = _tree(side, where)
    if isinstance(tree, exp.Paren) and side.startswith("("):  # div(a, b) is one for the parser
        key = _key(side[1:-1].strip(), text, where)
        return key if key is None or key.is_column else key._replace(sql=f"({key.sql})")
    relations = _relations(tree, text, where)
    if len(relations) != 1:
        return None
    (relation,) = relations
    if isinstance(tree, exp.Column):
        _, column, *path = (part.name for part in tree.parts)
        label = column.lower(), *path  # a path may end in the key of a map, of which case matters
        return JoinKey(relation, label, quoted(relation, *label))
    return JoinKey(relation, (tree.sql(dialect="spark").lower(),), side)


def without_comments(text: str) -> str:
    """A text of Spark SQL without its comments, which would hide what is written after it."""
    if "--" not in text and "/*" not in text:
        return text
    try:
        tokens = sqlglot.tokenize(text, dialect="spark")
    except SqlglotError:
        return text  # Spark says what is wrong
    parts, end = list[str](), 0
    for token in tokens:
        gap = text[end : token.start]
        parts += " " if gap.strip() else gap, text[token.start : token.end + 1]
        end = token.end + 1
    return "".join(parts)


def _tree(text: str, where: str) -> exp.Expression:
    try:
        tree = sqlglot.parse_one(text, dialect="spark")
    except SqlglotError as error:
        known = getattr(error, "errors", None) or [{}]
        place = f" at column {known[0]['col']}" if known[0].get("col") else ""
        what = _CLASS.sub("an operand is missing", str(known[0].get("description") or error).splitlines()[0])
        raise InputError(f"{where}({text!r}): this is no condition{place}: {what}") from error
    if not isinstance(tree, exp.Expression) or tree.find(exp.Query):
        raise InputError(f"{where}({text!r}): a condition compares columns of the relations; it is no query, and holds none")
    return tree


def _relations(tree: exp.Expression, text: str, where: str) -> frozenset[str]:
    found = set()
    for column in tree.find_all(exp.Column):
        if len(column.parts) < 2:
            raise InputError(f"{where}({text!r}): name the relation of the column {column.name}, as in relation.{column.name}")
        found.add(column.parts[0].name.lower())
    return frozenset(found)


def _conjuncts(text: str) -> Iterator[str]:
    """The text split at its outermost ANDs, except those of BETWEEN."""
    between, begin = 0, 0
    for token in _outermost(text):
        if token.token_type is TokenType.BETWEEN:
            between += 1
        elif token.token_type is TokenType.AND and between:
            between -= 1
        elif token.token_type is TokenType.AND:
            yield text[begin : token.start].strip()
            begin = token.end + 1
    yield text[begin:].strip()


def _sides(text: str) -> tuple[str, str] | None:
    """The two sides of an equality; None if its outermost level has other than one equals sign, or another comparison."""
    tokens = list(_outermost(text))
    signs = [token for token in tokens if token.token_type is TokenType.EQ]
    if len(signs) != 1 or any(token.token_type in _COMPARISONS for token in tokens):
        return None
    return text[: signs[0].start].strip(), text[signs[0].end + 1 :].strip()


def _outermost(text: str) -> Iterator[sqlglot.Token]:
    """The tokens outside of all brackets, without names that are keywords: of columns (``s.end``) and of relations (``end.k``)."""
    tokens, depth, cases = sqlglot.tokenize(text, dialect="spark"), 0, 0
    kinds = [token.token_type for token in tokens]
    for before, token, kind, after in zip([None, *kinds], tokens, kinds, [*kinds[1:], None]):
        is_case, is_end = kind is TokenType.CASE, kind is TokenType.END
        if before is TokenType.DOT or (is_case and after is TokenType.DOT) or (is_end and not cases):
            continue
        cases += is_case - is_end
        depth += (kind in _OPENS) - (kind in _CLOSES)
        if not depth:
            yield token


def all_of(conditions: Iterable[Condition]) -> str:
    """The conjunction of conditions, as Spark SQL."""
    return " AND ".join(f"({condition.text})" for condition in conditions)
