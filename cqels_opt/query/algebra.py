"""The algebra that every dialect is parsed to: SPARQL 1.1 §18.2 with a source (window, graph) on each basic graph pattern.

All nodes are frozen. A term is its canonical N-Triples text (``<http://a>``, ``"3"^^<…integer>``, ``_:b``, ``<<( … )>>``); a variable is
:class:`Variable`, and a triple term with variables in it a :class:`TripleTerm`. Blank nodes of a pattern are variables whose name
begins with ``_:``, so they can never be projected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True, order=True)
class Variable:
    """A query variable, without its question mark."""

    name: str

    def __str__(self) -> str:
        return f"?{self.name}"


Term: TypeAlias = str
TIMESTAMP = "<http://larkc.eu/csparql/sparql/jena/ext#timestamp>"
"""C-SPARQL's ``timestamp(s, p, o)``, as a function of a :class:`Call`."""


@dataclass(frozen=True, slots=True)
class TripleTerm:
    """A triple term of a pattern or template, with variables in it (RDF 1.2); one without is a :data:`Term`."""

    s: Node
    p: Node
    o: Node


Name: TypeAlias = "Variable | Term"
"""What is not taken apart: the name of a graph, the end of a path, what is described."""
Node: TypeAlias = "Name | TripleTerm"


def variables_in(*nodes: Node) -> Iterator[Variable]:
    """The variables of nodes, in order; of triple terms those inside."""
    for node in nodes:
        if isinstance(node, Variable):
            yield node
        elif isinstance(node, TripleTerm):
            yield from variables_in(node.s, node.p, node.o)


# ------------------------------------------------------------------ where a pattern is matched
@dataclass(frozen=True, slots=True)
class DefaultGraph:
    """The static default graph."""


@dataclass(frozen=True, slots=True)
class NamedGraph:
    """``GRAPH <name>`` or, over all static named graphs, ``GRAPH ?name``."""

    name: Name


@dataclass(frozen=True, slots=True)
class InWindow:
    """The content of a declared window; with a ``graph`` that of its elements whose graph has this name, or of each in turn.

    ``time`` takes the element's time, of each occurrence of a triple.
    """

    window: str
    graph: Name | None = None
    time: Variable | None = None


@dataclass(frozen=True, slots=True)
class GraphsMerged:
    """The default graph that FROM clauses make: each triple of these static graphs once (SPARQL 1.1 §13.2.1)."""

    names: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """The contents of windows and the default graph, merged: what C-SPARQL and its relatives match outside GRAPH.

    ``default`` is the static default graph, or the graphs that FROM clauses make it.
    """

    windows: tuple[str, ...]
    default: DefaultGraph | GraphsMerged = DefaultGraph()


Source: TypeAlias = DefaultGraph | NamedGraph | InWindow | Merged | GraphsMerged


def graph_in(source: Source) -> Name | None:
    """What names the graph that a source is, static or of a window's elements; None for one without a name."""
    return source.name if isinstance(source, NamedGraph) else source.graph if isinstance(source, InWindow) else None


# ------------------------------------------------------------------ expressions


@dataclass(frozen=True, slots=True)
class Constant:
    """A term in an expression."""

    term: Term


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator applied to expressions.

    ``function`` is the upper-case SPARQL name (``STRLEN``, ``IF``, ``COALESCE``, ``BOUND``, ``REGEX`` …), an operator
    (``= != < > <= >= + - * / && || !``, ``UNARY-``, ``UNARY+``), ``IN`` or ``NOT IN`` (first argument the needle), or the
    text ``<iri>`` of a cast or extension function.
    """

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Exists:
    """``EXISTS { … }`` and ``NOT EXISTS { … }``, and the character of the text at which it stands."""

    pattern: Algebra
    negated: bool
    place: int = field(default=0, compare=False, repr=False)


Expression: TypeAlias = Variable | Constant | Call | Exists


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate; ``argument`` is None for ``COUNT(*)``. ``function`` is COUNT, SUM, MIN, MAX, AVG, SAMPLE or GROUP_CONCAT."""

    function: str
    argument: Expression | None
    distinct: bool = False
    separator: str = " "


# ------------------------------------------------------------------ patterns
@dataclass(frozen=True, slots=True)
class TriplePattern:
    """A triple with variables."""

    s: Node
    p: Node
    o: Node

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Its different variables, in order."""
        return tuple(dict.fromkeys(variables_in(self.s, self.p, self.o)))


@dataclass(frozen=True, slots=True)
class Bgp:
    """A basic graph pattern in one source; an empty one is SPARQL's unit (one row without bindings)."""

    patterns: tuple[TriplePattern, ...]
    source: Source = DefaultGraph()


@dataclass(frozen=True, slots=True)
class Join:
    """Compatible mappings of both sides."""

    left: Algebra
    right: Algebra


@dataclass(frozen=True, slots=True)
class LeftJoin:
    """OPTIONAL; ``condition`` is the filter of the optional group, which sees both sides."""

    left: Algebra
    right: Algebra
    condition: Expression | None = None


@dataclass(frozen=True, slots=True)
class Union:
    """All mappings of both sides."""

    left: Algebra
    right: Algebra


@dataclass(frozen=True, slots=True)
class Minus:
    """MINUS. Variables ``apart`` must agree as others do, but do not count as shared: that of the graph within GRAPH ?g."""

    left: Algebra
    right: Algebra
    apart: tuple[Variable, ...] = ()


@dataclass(frozen=True, slots=True)
class Closure:
    """A path of repeated steps, ``*``, ``+`` or ``?``: each pair of ends once (SPARQL 1.1 §18.4, ALP and ZeroOrOnePath).

    ``step`` binds ``here`` and ``there`` to the ends of one step. ``nodes`` is what a path of length zero may stand at (None: none has that
    length): all nodes of the active graph, as ``here``, or, where an end is a constant, the unit of the graph. ``many``: more
    steps than one.
    """

    step: Algebra
    nodes: Algebra | None
    here: Variable
    there: Variable
    start: Name
    end: Name
    many: bool
    source: Source

    @property
    def ends(self) -> tuple[Variable, ...]:
        """The variables that it binds, on every row: its ends, and the graph."""
        return tuple(dict.fromkeys(node for node in (graph_in(self.source), self.start, self.end) if isinstance(node, Variable)))


@dataclass(frozen=True, slots=True)
class Filter:
    """Mappings whose condition is effectively true; an error removes."""

    input: Algebra
    condition: Expression


@dataclass(frozen=True, slots=True)
class Extend:
    """BIND and ``(expression AS ?v)``; an error leaves the variable unbound."""

    input: Algebra
    variable: Variable
    expression: Expression


@dataclass(frozen=True, slots=True)
class Values:
    """Inline data; None is UNDEF."""

    variables: tuple[Variable, ...]
    rows: tuple[tuple[Term | None, ...], ...]


@dataclass(frozen=True, slots=True)
class Group:
    """GROUP BY with its aggregates. Without keys there is one group, also of no rows (``implicit``)."""

    input: Algebra
    keys: tuple[Variable, ...]
    aggregates: tuple[tuple[Variable, Aggregate], ...]
    implicit: bool = False


@dataclass(frozen=True, slots=True)
class Project:
    """The mappings restricted to variables; multiplicities stay."""

    input: Algebra
    variables: tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class Distinct:
    """DISTINCT (and REDUCED)."""

    input: Algebra


@dataclass(frozen=True, slots=True)
class OrderBy:
    """ORDER BY: (expression, descending) pairs."""

    input: Algebra
    keys: tuple[tuple[Expression, bool], ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """OFFSET and LIMIT (None: no limit); of the rows of each value of ``each``, the graphs of GRAPH ?g, by themselves."""

    input: Algebra
    offset: int
    limit: int | None
    each: tuple[Variable, ...] = ()


@dataclass(frozen=True, slots=True)
class Service:
    """``SERVICE <iri> { … }``: an operator of another package over the solutions of a pattern, evaluated by itself.

    The IRI without its query component is the operator's name; the query component has its parameters.
    """

    input: Algebra
    iri: Term

    @property
    def name(self) -> str:
        """The name of the operator."""
        return self.iri[1:-1].partition("?")[0]

    @property
    def parameters(self) -> str:
        """The query component of the IRI."""
        return self.iri[1:-1].partition("?")[2]


Algebra: TypeAlias = (
    Bgp
    | Closure
    | Join
    | LeftJoin
    | Union
    | Minus
    | Filter
    | Extend
    | Values
    | Group
    | Project
    | Distinct
    | OrderBy
    | Slice
    | Service
)


# ------------------------------------------------------------------ what is made of the solutions
@dataclass(frozen=True, slots=True)
class Construct:
    """CONSTRUCT: the triples of its template, whose blank nodes are variables ``_:…``."""

    template: tuple[TriplePattern, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """ASK: whether there is a solution."""


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE: the descriptions of these IRIs, and of the values of these variables."""

    nodes: tuple[Name, ...]


Form: TypeAlias = Construct | Ask | Describe

# ------------------------------------------------------------------ windows and queries


@dataclass(frozen=True, slots=True)
class Window:
    """A window over a stream (SEMANTICS §1). Times in milliseconds.

    ``kind`` is the name of a class of :mod:`cqels_opt.windows.kinds`, or of one that another package adds. The kind defines what the
    other fields mean. Of the built-in kinds ``width`` is α (for ``past`` how far back it begins), ``slide`` is β or δ (for ``past``
    where it ends; 0: none), ``count`` the n of ``last``, ``every`` its m (0: none), ``step`` the SLIDE of a past range or, of RSP-QL,
    the period of COMPUTED EVERY (0: none).
    """

    name: str
    stream: str
    kind: str
    width: int = 0
    slide: int = 0
    count: int = 0
    every: int = 0
    step: int = 0


@dataclass(frozen=True, slots=True)
class WindowClause:
    """Where a window's declaration stands in the query's text: characters ``[start, end)``, for tools that rewrite it."""

    window: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Dataset:
    """The graphs that make the default graph, and the named graphs that are seen (SPARQL 1.1 §13.2)."""

    default: tuple[Term, ...]
    named: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query: the answer's variables in order, the body, its windows by name, and what its text says of output.

    ``file`` is what errors call the text. ``dataset`` is what FROM says in a query that reads no stream (None: all that is given).
    ``operator`` is istream, dstream or rstream; None where the text has none of them: the profile then decides. ``form`` is None for
    SELECT; of the others ``body`` gives the solutions and ``variables`` are those of a solution. ``output`` is the name that the
    text registers for its answers: an IRI in angle brackets, or a word.
    """

    text: str
    dialect: str
    variables: tuple[Variable, ...]
    body: Algebra
    windows: tuple[Window, ...]
    clauses: tuple[WindowClause, ...]
    operator: str | None = None
    base: str | None = None
    form: Form | None = None
    output: str | None = None
    file: str = field(default="query", compare=False, repr=False)
    dataset: Dataset | None = None
