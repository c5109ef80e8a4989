"""The way from a query's text to its algebra."""

from __future__ import annotations

from dataclasses import replace

from lark import Tree
from lark.exceptions import UnexpectedInput

from cqels_opt.errors import QueryError
from cqels_opt.query.algebra import (
    Dataset,
    DefaultGraph,
    Distinct,
    GraphsMerged,
    Merged,
    NamedGraph,
    Project,
    Query,
    Slice,
    Variable,
)
from cqels_opt.query.chains import MOST_BRACKETS, MOST_LEVELS, brackets, levels
from cqels_opt.query.dialects import DIALECTS, recognise
from cqels_opt.query.forms import read_form
from cqels_opt.query.formulas import read_iri
from cqels_opt.query.grammar import load
from cqels_opt.query.groups import read_group
from cqels_opt.query.mistakes import explain, nearest
from cqels_opt.query.names import UnresolvedError
from cqels_opt.query.reading import Branch, Dialect, Reading, branches, line_and_column, tokens
from cqels_opt.query.selects import read_select

TOO_DEEP = (
    f"the query is nested too deeply: groups, OPTIONALs, MINUSes, BINDs and operators may hold or follow one another {MOST_LEVELS} levels "
    "deep; chains of ||, && and UNION may be of any length"
)


def parse(text: str, dialect: str = "auto", file: str = "query", any_function: bool = False) -> Query:
    """Parse a continuous query.

    ``dialect`` is a name of :data:`cqels_opt.query.dialects.DIALECTS`, or ``auto``: it is then recognised. ``file`` is the name
    that messages begin with. With ``any_function`` a query is read as well that calls functions by IRIs that are not known: it is
    good SPARQL, though it cannot be run. Raises :class:`~cqels_opt.errors.QueryError`, with line and column, for whatever is wrong or not
    supported yet.
    """
    if dialect != "auto" and dialect not in DIALECTS:
        raise QueryError(
            f"unknown dialect {dialect!r}{nearest(dialect, DIALECTS)}; there are auto, {', '.join(DIALECTS)}", file=file
        )
    if brackets(text) > MOST_BRACKETS:
        raise QueryError(TOO_DEEP, text, 1, 1, file)
    chosen = recognise(text) if dialect == "auto" else DIALECTS[dialect]
    try:
        query = _read(text, chosen, file, any_function)
    except RecursionError:
        raise QueryError(TOO_DEEP, text, 1, 1, file) from None
    if levels(query.body) > MOST_LEVELS:
        raise QueryError(TOO_DEEP, text, 1, 1, file)
    return query


def _read(text: str, dialect: Dialect, file: str, any_function: bool) -> Query:
    grammar = load(dialect.grammar)
    try:
        tree = grammar.parse(text)
    except UnexpectedInput as unexpected:
        message, at = explain(unexpected, text, grammar)
        likely = recognise(text)
        if likely is not dialect and _reads_further(text, likely, at):
            message += f" (it was read as {dialect.name}, but looks like {likely.name}: try --dialect {likely.name})"
        raise QueryError(message, text, *line_and_column(text, at), file) from None
    reading = Reading(text, file, dialect, read_group, read_select)
    reading.any_function = any_function
    unit = tree.children[0]
    assert isinstance(unit, Tree)
    query: Branch | None = None
    for part in branches(unit):
        if part.data == "prologue":
            _prologue(reading, part)
        elif part.data.endswith("_query"):
            query = part
        else:
            _clause(reading, part)
    assert query is not None
    for output in tokens(query):
        if output.type == "OUTPUT":
            reading.dialect.clauses["select_head"](reading, query)
    for clause in branches(query):
        _clause(reading, clause)
    dataset = _dataset(reading, query)
    body, form = read_form(reading, query)
    return Query(
        text=text,
        dialect=dialect.name,
        variables=_columns(body),
        body=body,
        windows=tuple(reading.windows.values()),
        clauses=tuple(reading.clauses),
        operator=reading.operator,
        base=reading.names.base,
        form=form,
        output=reading.output,
        file=reading.file,
        dataset=dataset,
    )


def _dataset(reading: Reading, query: Branch) -> Dataset | None:
    """SPARQL's dataset of FROM and FROM NAMED, which holds where no stream is read; the default graph is then the merge of its graphs."""
    inline = any(True for rule in reading.dialect.patterns for _ in query.find_data(rule))
    if not (reading.from_graph or reading.from_named) or reading.windows or inline:
        return None
    match reading.default:
        case NamedGraph(str(name)):
            reading.default = GraphsMerged((name,))
        case DefaultGraph():
            reading.default = GraphsMerged(())
    assert isinstance(reading.default, GraphsMerged)
    return Dataset(reading.default.names, tuple(dict.fromkeys(reading.from_named)))


def _reads_further(text: str, dialect: Dialect, at: int) -> bool:
    """Whether a dialect's grammar gets beyond a place of a text."""
    grammar = load(dialect.grammar)
    try:
        grammar.parse(text)
    except UnexpectedInput as unexpected:
        return explain(unexpected, text, grammar)[1] > at
    return True


def _prologue(reading: Reading, tree: Branch) -> None:
    for declaration in branches(tree):
        if declaration.data == "version_declaration":
            continue
        *prefix, reference = tokens(declaration)
        try:
            iri = reading.names.iri_of(reference)[1:-1]
        except UnresolvedError as error:
            reading.fail(reference, str(error))
        if declaration.data == "base_declaration":
            reading.names.base = iri
        else:
            reading.names.prefixes[prefix[0][:-1]] = iri


def _clause(reading: Reading, tree: Branch) -> None:
    if tree.data == "select_clause":
        head = branches(tree)[0]
        if tokens(head):
            reading.dialect.clauses["select_head"](reading, head)
    elif tree.data in reading.dialect.clauses:
        reading.dialect.clauses[tree.data](reading, tree)
    elif tree.data == "from_default":
        # SPARQL's default graph is then what --graph loads under this name.
        name = read_iri(reading, branches(tree)[0])
        if reading.from_graph and isinstance(reading.default, Merged):
            reading.fail(tree, "streams are merged with one default graph only: load several with --static")
        if isinstance(reading.default, NamedGraph | GraphsMerged):
            before = (str(reading.default.name),) if isinstance(reading.default, NamedGraph) else reading.default.names
            reading.default = GraphsMerged(tuple(dict.fromkeys((*before, name))))
            return
        reading.from_graph = True
        graph = NamedGraph(name)
        reading.default = replace(reading.default, default=graph) if isinstance(reading.default, Merged) else graph
    elif tree.data == "from_named":
        reading.from_named.append(read_iri(reading, branches(tree)[0]))


def _columns(body: object) -> tuple[Variable, ...]:
    while isinstance(body, (Slice, Distinct)):
        body = body.input
    assert isinstance(body, Project)
    return body.variables
