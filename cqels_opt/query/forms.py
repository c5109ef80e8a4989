"""CONSTRUCT, ASK and DESCRIBE: the solutions of such a query and its form (SPARQL 1.1 §16.2 to §16.4)."""

from __future__ import annotations

from collections.abc import Iterator

from cqels_opt.query import algebra as a
from cqels_opt.query.formulas import read_iri
from cqels_opt.query.graphs import unit
from cqels_opt.query.reading import Branch, Reading, branches, only, tokens
from cqels_opt.query.selects import read_select
from cqels_opt.query.triples import read_triples


def read_form(reading: Reading, tree: Branch) -> tuple[a.Algebra, a.Form | None]:
    """The solutions of a query and its form; the form is None for SELECT."""
    body = read_select(reading, tree, reading.default)
    match tree.data:
        case "construct_query":
            return body, a.Construct(_template(reading, tree, body))
        case "ask_query":
            return body, a.Ask()
        case "describe_query":
            return body, a.Describe(_described(reading, tree, body))
    return body, None


def _template(reading: Reading, tree: Branch, body: a.Algebra) -> tuple[a.TriplePattern, ...]:
    written = only(tree, "construct_template")
    paths = (written if written is not None else tree).find_pred(lambda part: part.data.startswith("path_"))
    if (path := next(iter(paths), None)) is not None:
        reading.fail(path, "a property path cannot be made: write a predicate IRI, 'a' or a variable")
    if written is None:
        pattern = _solutions(body)
        if only(tree, "values_clause") is not None:  # joined with the pattern, unless this is empty
            pattern = pattern.left if isinstance(pattern, a.Join) else unit(reading.default)
        return tuple(_patterns(reading, tree, pattern))
    # Blank-node labels of the template are independent of those of the WHERE clause (§16.2.1).
    outside, reading.labels = reading.labels, {}
    block = only(written, "triples_block")
    found = read_triples(reading, block, reading.number("run"), reading.default) if block is not None else []
    reading.labels = outside
    return tuple(pattern for pattern in found if isinstance(pattern, a.TriplePattern))


def _solutions(body: a.Algebra) -> a.Algebra:
    """The pattern below the solution modifiers of a query."""
    while isinstance(body, a.Slice | a.Distinct | a.Project | a.OrderBy):
        body = body.input
    return body


def _patterns(reading: Reading, tree: Branch, body: a.Algebra) -> Iterator[a.TriplePattern]:
    """The triple patterns of ``CONSTRUCT WHERE``, which may be inside windows; any other pattern cannot be a template."""
    match body:
        case a.Join(left, right):
            yield from _patterns(reading, tree, left)
            yield from _patterns(reading, tree, right)
        case a.Bgp(patterns, source) if isinstance(source, a.InWindow | a.Merged) or source == reading.default:
            yield from patterns
        case a.Bgp(_, a.NamedGraph()):
            reading.fail(tree, "CONSTRUCT WHERE cannot hold GRAPH: write the triples that it makes as CONSTRUCT { … } WHERE")
        case _:
            reading.fail(tree, "CONSTRUCT WHERE holds triples alone: write those that it makes as CONSTRUCT { … } WHERE")


def _described(reading: Reading, tree: Branch, body: a.Algebra) -> tuple[a.Name, ...]:
    if any(token.type == "STAR" for token in tokens(tree)):
        while isinstance(body, a.Slice):
            body = body.input
        return body.variables if isinstance(body, a.Project) else ()
    nodes: list[a.Name] = []
    for child in branches(tree):
        if child.data == "variable":
            nodes.append(reading.variable(child))
        elif child.data == "iri":
            nodes.append(read_iri(reading, child))
    return tuple(dict.fromkeys(nodes))
