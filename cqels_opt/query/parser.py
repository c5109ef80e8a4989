"""From a query's text to its algebra."""

from __future__ import annotations

import re
from typing import Final

from lark import Tree
from lark.exceptions import UnexpectedInput

from cqels_opt.errors import QueryError, option
from cqels_opt.query import algebra as a
from cqels_opt.query.chains import MOST_BRACKETS, TOO_DEEP, brackets
from cqels_opt.query.dialects import names
from cqels_opt.query.dialects.registry import find, recognise
from cqels_opt.query.forms import read_form
from cqels_opt.query.formulas import read_iri
from cqels_opt.query.grammar import load
from cqels_opt.query.groups import read_group
from cqels_opt.query.mistakes import explain
from cqels_opt.query.names import UnresolvedError
from cqels_opt.query.reading import Branch, Dialect, Reading, branches, line_and_column, tokens
from cqels_opt.query.selects import read_select

BYTE_ORDER_MARK: Final = "\ufeff"
"""Some editors write it before the first character of a file."""

_WINDOW_CLAUSE: Final = re.compile(
    r"""FROM \s+ (?:NAMED\s+)? (?:(?:STREAM|WINDOW)\s+)? (?:<[^<>\s]*>|[\w.-]*:[\w.-]*) \s*
        (?:ON\s+ (?:STREAM\s+)? (?:<[^<>\s]*>|[\w.-]*:[\w.-]*) \s*)? (?:\[[^][]*\]? | WINDOW\s+\w+)""",
    re.IGNORECASE | re.VERBOSE,
)
"""The window clause of a stream, in any of our dialects."""


def parse(text: str, dialect: str = "auto", file: str = "query", any_function: bool = False) -> a.Query:
    """Parse a continuous query.

    ``dialect`` is one of :func:`cqels_opt.query.dialects.names`, or ``auto`` to recognise it. Messages begin with ``file``.
    With ``any_function``, calls of unknown functions are read as well: such a query is good SPARQL, but cannot run.
    Raises :class:`~cqels_opt.errors.QueryError`, with line and column, for everything that is wrong or not supported.
    """
    chosen = None if dialect == "auto" else find(dialect, file, others=("auto",))
    text = text.removeprefix(BYTE_ORDER_MARK)
    if brackets(text) > MOST_BRACKETS:
        raise QueryError(TOO_DEEP, text, 1, 1, file)
    try:
        return _read(text, chosen or recognise(text), file, any_function)
    except RecursionError:
        raise QueryError(TOO_DEEP, text, 1, 1, file) from None


def _read(text: str, dialect: Dialect, file: str, any_function: bool) -> a.Query:
    grammar = load(dialect.grammar, text.isascii())
    try:
        tree = grammar.parse(text)
    except UnexpectedInput as unexpected:
        message, at = explain(unexpected, text, grammar)
        likely = recognise(text)
        if likely is not dialect and _reads_to(text, likely) > at:
            message += f" (it was read as {dialect.name}, but looks like {likely.name}: try {_dialect_option(likely)})"
        else:
            message += _window_words(text, dialect, at)
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
    return a.Query(
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


def _dataset(reading: Reading, query: Branch) -> a.Dataset | None:
    """The dataset of FROM and FROM NAMED for a query that reads no stream; its default graph is the merge of the FROM graphs."""
    inline = any(True for rule in reading.dialect.patterns for _ in query.find_data(rule))
    default = reading.default
    if not (isinstance(default, a.GraphsMerged) or reading.from_named) or reading.windows or inline:
        return None
    reading.default = default if isinstance(default, a.GraphsMerged) else a.GraphsMerged(())
    return a.Dataset(reading.default.names, tuple(dict.fromkeys(reading.from_named)))


def _window_words(text: str, dialect: Dialect, at: int) -> str:
    """For a window clause that the dialect cannot read: its own form, and the dialect that reads more of the text."""
    clause = _WINDOW_CLAUSE.match(text, text.upper().rfind("FROM", 0, at)) if "FROM" in text[:at].upper() else None
    if clause is None or not clause.start() < at < clause.end():
        return ""
    others = (find(name) for name in names() if name != dialect.name)
    reached, _, other = max((_reads_to(text, other), other.name, other) for other in others)
    further = f"; {other.name}, which reads further, writes {other.window}: try {_dialect_option(other)}" if reached > at else ""
    return f" (it was read as {dialect.name}, which writes {dialect.window}{further})"


def _dialect_option(dialect: Dialect) -> str:
    return option(f'dialect="{dialect.name}"', f"--dialect {dialect.name}")


def _reads_to(text: str, dialect: Dialect) -> int:
    """How far a dialect's grammar gets in a text."""
    grammar = load(dialect.grammar, text.isascii())
    try:
        grammar.parse(text)
    except UnexpectedInput as unexpected:
        return explain(unexpected, text, grammar)[1]
    return len(text)


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
        # FROM makes the default graph of what --graph loads under this name.
        reading.default = _and_graph(reading.default, read_iri(reading, branches(tree)[0]))
    elif tree.data == "from_named":
        reading.from_named.append(read_iri(reading, branches(tree)[0]))


def _and_graph(default: a.Source, name: a.Term) -> a.Source:
    """The default graph with the triples of one more graph; the first FROM replaces the data that have no graph name."""
    match default:
        case a.Merged(windows, static):
            return a.Merged(windows, _graphs(static, name))
        case a.DefaultGraph() | a.GraphsMerged():
            return _graphs(default, name)
    raise AssertionError(default)


def _graphs(static: a.DefaultGraph | a.GraphsMerged, name: a.Term) -> a.GraphsMerged:
    before = static.names if isinstance(static, a.GraphsMerged) else ()
    return a.GraphsMerged(tuple(dict.fromkeys((*before, name))))


def _columns(body: object) -> tuple[a.Variable, ...]:
    while isinstance(body, (a.Slice, a.Distinct)):
        body = body.input
    assert isinstance(body, a.Project)
    return body.variables
