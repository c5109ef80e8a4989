"""Expressions and aggregates as text. Every operator gets brackets, which the algebra does not contain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from cqels_opt.query.algebra import Aggregate, Algebra, Call, Constant, Exists, Expression, Node, Variable
from cqels_opt.query.chains import LONG
from cqels_opt.query.printing.writing import term
from cqels_opt.query.scope import operands
from cqels_opt.rdf.terms import literal


class Naming(Protocol):
    """What the text of an expression depends on: names, the aggregates of variables, and the text of patterns."""

    @property
    def aggregates(self) -> Mapping[str, Aggregate]:
        """The aggregates, by the variables that the parser gave them."""

    def node(self, node: Node) -> str:
        """A variable or a term."""

    @property
    def pattern(self) -> Any:
        """A function of this object and a pattern: the text between the braces of an EXISTS."""


@dataclass(frozen=True, slots=True)
class Bare:
    """A :class:`Naming` without a query: names as they are, … for those that ``shown`` says nobody wrote, and no text for patterns."""

    shown: Callable[[str], bool]
    aggregates: Mapping[str, Aggregate] = field(default_factory=dict)

    def node(self, node: Node) -> str:
        """See :class:`Naming`."""
        if isinstance(node, Variable):
            return f"?{node.name}" if self.shown(node.name) else "…"
        return node if isinstance(node, str) else "<<( … )>>"

    def pattern(self, writing: object, pattern: Algebra) -> str:
        """See :class:`Naming`."""
        return "…"


_BINARY: Final = frozenset(("=", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/", "&&", "||"))
_UNARY: Final = {"!": "!", "UNARY-": "-", "UNARY+": "+"}


def expression(writing: Naming, node: Expression) -> str:
    """The text of an expression."""
    match node:
        case Variable(name):
            aggregated = writing.aggregates.get(name)
            return writing.node(node) if aggregated is None else aggregate(writing, aggregated)
        case Constant(text):
            return term(text)
        case Exists(pattern, negated):
            return f"{'NOT ' * negated}EXISTS {{ {writing.pattern(writing, pattern)} }}"
        case Call("IN" | "NOT IN" as function, (needle, *others)):
            return f"({expression(writing, needle)} {function} ({_listed(writing, others)}))"
        case Call(function, _) if function in _BINARY:
            return f"({f' {function} '.join(expression(writing, part) for part in _chain(node))})"
        case Call(function, (only,)) if function in _UNARY:
            return f"({_UNARY[function]}({expression(writing, only)}))"
        case Call("IRI", (name, _)):  # the second is the base, which the BASE clause has
            return f"IRI({expression(writing, name)})"
        case Call(function, arguments):
            return f"{function}({_listed(writing, arguments)})"


def _chain(call: Call) -> list[Expression]:
    """The operands of ``a || b || c``: a left-deep tree, or a balanced one if it is long."""
    if call.function in ("&&", "||") and len(flat := operands(call, call.function)) > LONG:
        return flat
    found: list[Expression] = []
    first: Expression = call
    while isinstance(first, Call) and first.function == call.function and len(first.arguments) == 2:
        first, last = first.arguments
        found.append(last)
        if call.function not in ("&&", "||", "+", "*"):
            break
    return [first, *reversed(found)]


def _listed(writing: Naming, parts: list[Expression] | tuple[Expression, ...]) -> str:
    return ", ".join(expression(writing, part) for part in parts)


def aggregate(writing: Naming, node: Aggregate) -> str:
    """The text of an aggregate."""
    what = "*" if node.argument is None else expression(writing, node.argument)
    separator = f"; SEPARATOR = {literal(node.separator)}" if node.separator != " " else ""
    return f"{node.function}({'DISTINCT ' * node.distinct}{what}{separator})"


def constraint(writing: Naming, node: Expression) -> str:
    """The condition of a FILTER or HAVING."""
    text = expression(writing, node)
    return text if text.startswith("(") else f"({text})"
