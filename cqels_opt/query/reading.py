"""The state while the tree of one query is read: its dialect, names, windows and position in the text.

A :class:`Dialect` describes how a query language differs from SPARQL 1.1; a :class:`Reading` is the state of one ``parse``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias

from lark import Token, Tree

from cqels_opt.errors import QueryError
from cqels_opt.query import algebra as a
from cqels_opt.query.names import Names

if TYPE_CHECKING:
    from cqels_opt.query.printing.style import Style

Branch: TypeAlias = "Tree[Token]"


@dataclass(frozen=True, slots=True)
class Profile:
    """What holds where a query's text and the options leave it open: the report policy as ``--report`` writes it, and the output.

    ``windows`` maps window kinds of the text to those of an engine that reads the same text otherwise than its dialect says.
    """

    report: Literal["cc", "ea", "wc", "wc,nc"]
    operator: str
    duplicates: Literal["set", "bag"]
    windows: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a query language differs from SPARQL 1.1.

    ``grammar`` extends ``sparql.lark``. ``clauses`` maps a rule of a header or dataset clause to the function that reads it,
    ``patterns`` a rule of a graph pattern to the function that translates it; ``group_window`` returns the source of a group that
    ends with a window of its own. ``recognise`` matches what only this dialect writes, in a text without comments and strings, with
    IRIs as ``<>`` and one space between words. ``window`` is an example of a window clause, for messages. ``style`` writes a query
    in this dialect. With ``element_graphs``, GRAPH inside a window names the graphs of its elements; with ``timestamps``, queries may
    call C-SPARQL's timestamp().
    """

    name: str
    grammar: str
    recognise: re.Pattern[str]
    clauses: Mapping[str, Callable[[Reading, Branch], None]]
    window: str
    profile: Profile
    style: Style
    patterns: Mapping[str, Callable[[Reading, Branch, a.Source], a.Algebra]] = field(default_factory=dict)
    group_window: Callable[[Reading, Branch, a.Source], a.Source] | None = None
    element_graphs: bool = False
    timestamps: bool = False


@dataclass(slots=True)
class Scope:
    """The context of an expression: the source of its EXISTS patterns, its clause, and the collector of its aggregates."""

    source: a.Source
    clause: str
    aggregates: Aggregates | None = None


@dataclass(slots=True)
class Aggregates:
    """The aggregates in the expressions of one SELECT, each with its variable."""

    fresh: Callable[[], a.Variable]
    found: dict[a.Aggregate, a.Variable] = field(default_factory=dict)


class Reading:
    """The state of reading one query. ``read_group`` and ``read_select`` are parameters because expressions contain patterns."""

    def __init__(
        self,
        text: str,
        file: str,
        dialect: Dialect,
        read_group: Callable[[Reading, Branch, a.Source], a.Algebra],
        read_select: Callable[[Reading, Branch, a.Source], a.Algebra],
    ) -> None:
        self.text, self.file, self.dialect = text, file, dialect
        self.read_group, self.read_select = read_group, read_select
        self.names = Names()
        self.windows: dict[str, a.Window] = {}
        self.window_of: dict[a.Name, str] = {}
        self.clauses: list[a.WindowClause] = []
        self._notes: list[str] = []
        self.operator: str | None = None
        self.output: str | None = None
        self.every = 0
        self.any_function = False
        self.default: a.Source = a.DefaultGraph()
        self.from_named: list[str] = []
        self.labels: dict[str, int] = {}
        self._numbers = {kind: count() for kind in ("agg", "key", "graph", "blank", "run")}

    # ---------------------------------------------------------------- errors
    def fail(self, at: Branch | Token, message: str) -> NoReturn:
        """Raises a QueryError at a position of the tree."""
        start = at.start_pos if isinstance(at, Token) else 0 if at.meta.empty else at.meta.start_pos
        line, column = line_and_column(self.text, start or 0)
        raise QueryError(message, self.text, line, column, self.file)

    def whole(self, token: Token) -> int:
        """The number of an INTEGER token; an error above 18 digits, which may not fit into 64 bits."""
        if len(token) > 18:
            self.fail(token, "this number is too large")
        return int(token)

    # ---------------------------------------------------------------- fresh names
    def number(self, kind: Literal["agg", "key", "graph", "blank", "run"]) -> int:
        """The next number for fresh names of a kind."""
        return next(self._numbers[kind])

    def fresh(self, kind: Literal["agg", "key", "graph"]) -> a.Variable:
        """A fresh variable that no query can write."""
        return a.Variable(f".{kind}{self.number(kind)}")

    # ---------------------------------------------------------------- variables and windows
    def variable(self, tree: Branch) -> a.Variable:
        """A variable that can have a value; an error for the name of a window."""
        token = tree.children[0]
        assert isinstance(token, Token)
        variable = a.Variable(token[1:])
        if variable in self.window_of:
            self.fail(token, f"{token} names a window and has no value: it can only follow GRAPH")
        return variable

    def declare(self, window: a.Window, known_as: a.Name | None, at: Branch | Token, start: int, end: int) -> None:
        """Adds a window, named ``known_as`` in the body, whose declaration is the text ``[start, end)``."""
        if window.name in self.windows:
            self.fail(at, f"the window {window.name} is declared twice")
        self.windows[window.name] = window
        if known_as is not None:
            self.window_of[known_as] = window.name
        self.clauses.append(a.WindowClause(window.name, start, end, "; ".join(dict.fromkeys(self._notes))))
        self._notes.clear()

    def note(self, sentence: str) -> None:
        """Adds how an odd form in the window clause that is read now was understood, for a warning."""
        self._notes.append(sentence)

    def free_window_name(self, iri: str) -> str:
        """The local name of a stream, numbered from the second window onwards; ``s1``, ``s2`` … if the IRI has none."""
        found = re.search(r"([A-Za-z_]\w*)\W*>$", iri)
        stem = found[1] if found else "s"
        names = ([stem] if found else []) + [f"{stem}{n}" for n in range(2 if found else 1, len(self.windows) + 3)]
        return next(name for name in names if name not in self.windows)

    def graph(self, name: a.Name) -> a.Source:
        """The source of ``GRAPH name``: the window of that name, else the static named graphs."""
        return a.InWindow(self.window_of[name]) if name in self.window_of else a.NamedGraph(name)

    def source(self, tree: Branch) -> str:
        """The text of a part of the tree, as the user wrote it."""
        start, end = span(tree)
        return self.text[start:end]


def line_and_column(text: str, at: int) -> tuple[int, int]:
    """The line and column of a character, counted from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def span(tree: Branch) -> tuple[int, int]:
    """The characters ``[start, end)`` of a part of the tree."""
    return tree.meta.start_pos, tree.meta.end_pos


def branches(tree: Branch) -> list[Branch]:
    """The children that are rules."""
    return [child for child in tree.children if isinstance(child, Tree)]


def tokens(tree: Branch) -> list[Token]:
    """The children that are terminals."""
    return [child for child in tree.children if isinstance(child, Token)]


def only(tree: Branch, *rules: str) -> Branch | None:
    """The first child of one of these rules, or None."""
    return next((child for child in branches(tree) if child.data in rules), None)
