"""The algebra of all dialects: SPARQL 1.1 §18.2 with a source (window, graph) on each basic graph pattern.

All nodes are frozen. A term is its canonical N-Triples text (``<http://a>``, ``"3"^^<…integer>``, ``_:b``, ``<<( … )>>``). A
variable is a :class:`Variable`; a triple term that contains variables is a :class:`TripleTerm`. Blank nodes of a pattern are
variables whose names begin with ``_:``, so a query cannot project them.
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
    """A triple term with variables in a pattern or template (RDF 1.2). Without variables it is a :data:`Term`."""

    s: Node
    p: Node
    o: Node


Name: TypeAlias = "Variable | Term"
"""A node that is not a triple term: the name of a graph, an end of a path, a resource to describe."""
Node: TypeAlias = "Name | TripleTerm"


def variables_in(*nodes: Node) -> Iterator[Variable]:
    """The variables of nodes, in order, including those inside triple terms."""
    for node in nodes:
        if isinstance(node, Variable):
            yield node
        elif isinstance(node, TripleTerm):
            yield from variables_in(node.s, node.p, node.o)


# ------------------------------------------------------------------ sources of patterns
@dataclass(frozen=True, slots=True)
class DefaultGraph:
    """The static default graph."""


@dataclass(frozen=True, slots=True)
class NamedGraph:
    """``GRAPH <name>``, or ``GRAPH ?name`` over all static named graphs."""

    name: Name


@dataclass(frozen=True, slots=True)
class InWindow:
    """The content of a declared window; with ``graph``, only the elements whose graph has that name (for a variable: each graph).

    ``time`` is bound to the time of the element, for each occurrence of a triple.
    """

    window: str
    graph: Name | None = None
    time: Variable | None = None


@dataclass(frozen=True, slots=True)
class GraphsMerged:
    """The default graph that FROM clauses define: the union of these static graphs without duplicates (SPARQL 1.1 §13.2.1)."""

    names: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged contents of windows and the default graph: what C-SPARQL and related dialects match outside GRAPH.

    ``default`` is the static default graph, or the graphs that FROM clauses merge into it.
    """

    windows: tuple[str, ...]
    default: DefaultGraph | GraphsMerged = DefaultGraph()


Source: TypeAlias = DefaultGraph | NamedGraph | InWindow | Merged | GraphsMerged


def graph_in(source: Source) -> Name | None:
    """The graph name of a source, static or of window elements; None for a source without one."""
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
    text ``<iri>`` of a cast or extension function. ``draw`` distinguishes the calls of RAND() and the like; the compiler's pass
    ``identify_draws`` sets it. ``version`` distinguishes the functions that a user registered under one IRI (0: the newest).
    """

    function: str
    arguments: tuple[Expression, ...]
    draw: str = ""
    version: int = 0


@dataclass(frozen=True, slots=True)
class Exists:
    """``EXISTS { … }`` or ``NOT EXISTS { … }``; ``place`` is its character offset in the query text."""

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
        """The distinct variables, in order."""
        return tuple(dict.fromkeys(variables_in(self.s, self.p, self.o)))


@dataclass(frozen=True, slots=True)
class Bgp:
    """A basic graph pattern over one source. An empty one is SPARQL's unit: one row without bindings."""

    patterns: tuple[TriplePattern, ...]
    source: Source = DefaultGraph()


@dataclass(frozen=True, slots=True)
class Join:
    """Compatible mappings of both sides."""

    left: Algebra
    right: Algebra


@dataclass(frozen=True, slots=True)
class LeftJoin:
    """OPTIONAL; ``condition`` is the filter of the optional group, which reads both sides."""

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
    """MINUS. Variables in ``apart`` must agree but do not count as shared: the graph variable within GRAPH ?g."""

    left: Algebra
    right: Algebra
    apart: tuple[Variable, ...] = ()


@dataclass(frozen=True, slots=True)
class Closure:
    """A path of repeated steps, ``*``, ``+`` or ``?``: each pair of ends once (SPARQL 1.1 §18.4, ALP and ZeroOrOnePath).

    ``step`` binds ``here`` and ``there`` to the ends of one step. ``nodes`` are the nodes that a path of length zero connects to
    themselves (None: length zero is not allowed): all nodes of the active graph, bound to ``here``, or, where an end is a
    constant, the unit of the graph. ``many`` allows more than one step.
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
        """The variables that every row binds: the ends and the graph."""
        return tuple(dict.fromkeys(node for node in (graph_in(self.source), self.start, self.end) if isinstance(node, Variable)))


@dataclass(frozen=True, slots=True)
class Filter:
    """The mappings for which the condition's effective boolean value is true; an error removes the mapping."""

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
    """GROUP BY with its aggregates. Without keys (``implicit``) there is exactly one group, even for no rows."""

    input: Algebra
    keys: tuple[Variable, ...]
    aggregates: tuple[tuple[Variable, Aggregate], ...]
    implicit: bool = False


@dataclass(frozen=True, slots=True)
class Project:
    """The mappings restricted to variables; multiplicities are kept."""

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
    """OFFSET and LIMIT (None: no limit), applied separately per value of ``each`` (the graphs of GRAPH ?g)."""

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


# ------------------------------------------------------------------ query forms
@dataclass(frozen=True, slots=True)
class Construct:
    """CONSTRUCT: the triples of its template; blank nodes in it are variables ``_:…``."""

    template: tuple[TriplePattern, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """ASK: whether a solution exists."""


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE: the descriptions of these IRIs and of the values of these variables."""

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
    """The position of a window's declaration in the query text, characters ``[start, end)``, for tools that rewrite it.

    ``note`` says how a form that the language does not define was read; empty for all other declarations.
    """

    window: str
    start: int
    end: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Dataset:
    """The graphs that form the default graph, and the visible named graphs (SPARQL 1.1 §13.2)."""

    default: tuple[Term, ...]
    named: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query: the answer's variables in order, the body, its windows by name, and its output declarations.

    ``file`` names the text in error messages. ``dataset`` holds the FROM clauses of a query that reads no stream (None: the whole
    dataset). ``operator`` is istream, dstream or rstream; None if the text has none of them: the profile then decides. ``form`` is
    None for SELECT; for other forms ``body`` computes the solutions and ``variables`` are those of a solution. ``output`` is the
    name that the text registers for its answers: an IRI in angle brackets, or a word.
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

    @property
    def output_stream(self) -> str | None:
        """The stream that its answers make, in angle brackets; None if the text registers no name."""
        return f"<{self.output.strip('<>')}>" if self.output else None
