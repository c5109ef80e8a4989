"""Expressions: from the parse tree of an expression to the algebra's ``Expression``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from cqels_opt.errors import QueryError
from cqels_opt.query.algebra import TIMESTAMP, Aggregate, Call, Constant, Exists, Expression, Variable
from cqels_opt.query.chains import LONG, chained
from cqels_opt.query.functions import ARITIES, check_call
from cqels_opt.query.names import RDF_TYPE, UnresolvedError, literal_term, number_term, string_value
from cqels_opt.query.reading import Aggregates, Branch, Reading, Scope, branches, only, span, tokens
from cqels_opt.query.scope import operands
from cqels_opt.rdf.terms import MAX_DEPTH, depth, triple

_SAME: Final = {"ISURI": "ISIRI", "URI": "IRI"}


def read_expression(reading: Reading, tree: Branch, scope: Scope) -> Expression:
    """The expression of a tree; an aggregate is replaced by its variable in ``scope.aggregates``."""
    return _READERS[tree.data](reading, tree, scope)


def _all(reading: Reading, trees: list[Branch], scope: Scope) -> tuple[Expression, ...]:
    return tuple(read_expression(reading, tree, scope) for tree in trees)


def read_iri(reading: Reading, tree: Branch) -> str:
    """The canonical term of an ``iri`` rule."""
    token = tokens(tree)[0]
    try:
        return reading.names.iri(token)
    except UnresolvedError as problem:
        reading.fail(token, str(problem))


def read_literal(reading: Reading, tree: Branch) -> str:
    """The canonical term of a ``literal`` rule."""
    try:
        return literal_term(reading.names, tree)
    except UnresolvedError as problem:
        reading.fail(tree, str(problem))


def read_triple_data(reading: Reading, tree: Branch) -> str:
    """The canonical term of a triple term without variables."""
    s, verb, o = branches(tree)
    p = RDF_TYPE if verb.data == "rdf_type" else read_iri(reading, verb)
    if o.data in ("iri", "literal"):
        item = read_iri(reading, o) if o.data == "iri" else read_literal(reading, o)
    else:
        item = read_triple_data(reading, o)
    if depth(item) >= MAX_DEPTH:
        reading.fail(tree, f"triple terms are nested deeper than {MAX_DEPTH} levels")
    return triple(read_iri(reading, s), p, item)


def _variable(reading: Reading, tree: Branch, scope: Scope) -> Expression:
    return reading.variable(tree)


def _iri(reading: Reading, tree: Branch, scope: Scope) -> Expression:
    return Constant(read_iri(reading, tree))


def _literal(reading: Reading, tree: Branch, scope: Scope) -> Expression:
    return Constant(read_literal(reading, tree))


def _binary(reading: Reading, tree: Branch, scope: Scope) -> Expression:
    # A chain of one level (a && b && c …) is left-deep and may be long: this loop descends it without recursion.
    spine = [tree]
    while (first := branches(spine[-1])[0]).data == "binary":
        spine.append(first)
    found = read_expression(reading, branches(spine[-1])[0], scope)
    for level in reversed(spine):
        found = Call(str(tokens(level)[0]), (found, read_expression(reading, branches(level)[1], scope)))
    operator = str(tokens(tree)[0])
    if operator in ("||", "&&") and len(parts := operands(found, operator)) > LONG:
        return chained(parts, lambda left, right: Call(operator, (left, right)))
    return found


def _signed_sum(reading: Reading, tree: Branch, scope: Scope) -> Expression:
    # ?a -5 * ?b without a space: the sign of the number is the operator (SPARQL 1.1, rule 116).
    left, product = branches(tree)
    number = tokens(product)[0]
    right: Expression = Constant(number_term(number, number[1:]))
    for operator, factor in zip(tokens(product)[1:], branches(product)):
        right = Call(str(operator), (right, read_expression(reading, factor, scope)))
    return Call(number[0], (read_expression(reading, left, scope), right))


def _prefixed(reading: Reading, tree: Branch, scope: Scope) -> Expression:
    sign = tokens(tree)[0]
    return Call("!" if sign == "!" else f"UNARY{sign}", _all(reading, branches(tree), scope))


def _in_list(reading: Reading, tree: Branch, scope: Scope) -> Expression:
    needle, members = branches(tree)
    function = "IN" if tree.data == "in_list" else "NOT IN"
    return Call(function, (read_expression(reading, needle, scope), *_all(reading, branches(members), scope)))


def _function_call(reading: Reading, tree: Branch, scope: Scope) -> Expression:
    name, *arguments = branches(tree)
    if tokens(tree):
        reading.fail(
            tokens(tree)[0], "DISTINCT in a call of a function: it belongs to aggregates, and there are none of one's own"
        )
    call = Call(read_iri(reading, name), _all(reading, arguments, scope))
    if call.function == TIMESTAMP and not reading.dialect.timestamps:
        reading.fail(tree, f"timestamp() is a function of C-SPARQL, and this is read as {reading.dialect.name}")
    if call.function == TIMESTAMP and not all(isinstance(x, Variable | Constant) for x in call.arguments):
        reading.fail(tree, "timestamp() takes variables and terms: give what is computed a name with BIND")
    return call if reading.any_function and call.function not in ARITIES else _checked(reading, tree, call)


def _builtin_call(reading: Reading, tree: Branch, scope: Scope) -> Expression:
    name = tokens(tree)[0].upper()
    call = _checked(reading, tree, Call(_SAME.get(name, name), _all(reading, branches(tree), scope)))
    if call.function != "IRI":
        return call
    if len(call.arguments) > 1:
        reading.fail(tree, f"{name} takes 1 argument, not {len(call.arguments)}")
    base = reading.names.base
    return call if base is None else Call("IRI", (*call.arguments, Constant(f"<{base}>")))


def _checked(reading: Reading, tree: Branch, call: Call) -> Call:
    try:
        check_call(call)
    except QueryError as error:
        reading.fail(tree, error.message)
    return call


def _triple(reading: Reading, tree: Branch, scope: Scope) -> Expression:
    s, verb, o = branches(tree)
    p = Constant(RDF_TYPE) if verb.data == "rdf_type" else read_expression(reading, verb, scope)
    parts = (read_expression(reading, s, scope), p, read_expression(reading, o, scope))
    if all(isinstance(part, Constant) for part in parts):
        return Constant(read_triple_data(reading, tree))
    return Call("TRIPLE", parts)


def _exists(reading: Reading, tree: Branch, scope: Scope) -> Expression:
    return Exists(reading.read_group(reading, branches(tree)[0], scope.source), tree.data == "not_exists", span(tree)[0])


def _aggregate(reading: Reading, tree: Branch, scope: Scope) -> Expression:
    name = tokens(tree)[0].upper()
    if scope.aggregates is None:
        reading.fail(tree, f"{name} is an aggregate and cannot stand {scope.clause}")
    words = {token.type for token in tokens(tree)}
    separator = only(tree, "string")
    if "STAR" in words and name != "COUNT":
        reading.fail(tree, f"{name}(*) has no meaning; only COUNT takes *")
    if separator is not None and name != "GROUP_CONCAT":
        reading.fail(separator, f"only GROUP_CONCAT takes a SEPARATOR, not {name}")
    inside = replace(scope, clause=f"inside {name}: compute it in a sub-select, with a name", aggregates=None)
    argument = None if "STAR" in words else read_expression(reading, branches(tree)[0], inside)
    aggregate = Aggregate(name, argument, "DISTINCT" in words, " " if separator is None else _separator(reading, separator))
    return variable_of(scope.aggregates, aggregate)


def _separator(reading: Reading, tree: Branch) -> str:
    try:
        return string_value(tree)
    except UnresolvedError as error:
        reading.fail(tree, str(error))


def variable_of(aggregates: Aggregates, aggregate: Aggregate) -> Variable:
    """The variable of an aggregate; equal aggregates share one variable."""
    if aggregate not in aggregates.found:
        aggregates.found[aggregate] = aggregates.fresh()
    return aggregates.found[aggregate]


_READERS: Final[dict[str, Callable[[Reading, Branch, Scope], Expression]]] = {
    "variable": _variable,
    "iri": _iri,
    "literal": _literal,
    "binary": _binary,
    "signed_sum": _signed_sum,
    "prefixed": _prefixed,
    "in_list": _in_list,
    "not_in_list": _in_list,
    "function_call": _function_call,
    "builtin_call": _builtin_call,
    "aggregate": _aggregate,
    "triple_expression": _triple,
    "exists": _exists,
    "not_exists": _exists,
}


def used(expression: Expression) -> set[Variable]:
    """The variables of an expression outside its EXISTS patterns."""
    if isinstance(expression, Variable):
        return {expression}
    if isinstance(expression, Call):
        return set().union(*map(used, expression.arguments))
    return set()
