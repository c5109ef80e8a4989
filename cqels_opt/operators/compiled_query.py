"""A compiled query as its executors carry it: blocks of joins, the operators above them, and what is put out when.

Everything here is frozen data that pickles small; relations are named by where they lie.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from cqels_opt.lod.store import StaticPattern
from cqels_opt.plans import JoinKind
from cqels_opt.query.algebra import Aggregate, Expression, Variable, Window
from cqels_opt.query.extensions import Extension
from cqels_opt.query.scope import uses_now
from cqels_opt.query.templates import INSTANCE
from cqels_opt.query.uncertainty.families import Family
from cqels_opt.rdf.ids import IdScheme
from cqels_opt.windows.binding_slots import Shape
from cqels_opt.windows.instants import Report
from cqels_opt.windows.intervals import BEFORE_TIME
from cqels_opt.windows.kinds import kind_of


@dataclass(frozen=True, slots=True)
class PatternOccurrence:
    """A stream pattern of a block: a delta source. ``variables[i]`` names binding column ``v<i>`` of the shape's slots.

    Where windows and static data are merged it is the sum of its ``parts``, one a window, and of the ``static`` triples that match.
    """

    name: str
    window: Window
    t0: int
    shape: Shape
    variables: tuple[str, ...]
    distinct: bool = False  # the content is a set of triples, not a bag of elements
    time: str = ""  # the variable that takes the elements' times, if any
    others: tuple[PatternOccurrence, ...] = ()  # the pattern in further windows
    static: Static | None = None  # the pattern in the static graph
    store: str = ""  # the folder of the static store, where there is a static part
    since: int = int(BEFORE_TIME)  # elements up to this time were there before the query, and are not seen

    @property
    def binds(self) -> tuple[str, ...]:
        """The variables that its rows have; joins are on those of the pattern alone."""
        return (*self.variables, self.time) if self.time else self.variables

    @property
    def merged(self) -> bool:
        """Whether it is more than a window."""
        return bool(self.others) or self.static is not None

    @property
    def parts(self) -> tuple[PatternOccurrence, ...]:
        """The pattern in each of the windows."""
        return (replace(self, others=(), static=None, store=""), *self.others) if self.merged else (self,)

    @property
    def ranked(self) -> tuple[str, ...]:
        """The streams at whose ranks rows end: those of its windows that count elements."""
        return tuple(dict.fromkeys(part.window.stream for part in self.parts if kind_of(part.window).counts_elements))


@dataclass(frozen=True, slots=True)
class Static:
    """A static relation of a block: a pattern on the store, or a sub-result or sub-select in a folder of its own."""

    name: str
    variables: tuple[str, ...]
    at: StaticPattern | str
    rows: int
    patterns: int = 1  # how many triple patterns it stands for
    partial: bool = False  # some rows leave a variable unbound
    of: int = 0  # which of its block's parts it stands for, as bits
    kind: JoinKind = "inner"  # how a block joins it: as a unit (OPTIONAL, MINUS, EXISTS) where this is another
    on: tuple[str, ...] = ()  # of a unit: the variables that it shares with what it was written after
    reads: tuple[str, ...] = ()  # of a unit: what else of the left side its condition reads
    condition: Expression | None = None  # of a unit: which of its rows count for a row of the left side

    @property
    def binds(self) -> tuple[str, ...]:
        """The variables that a block's rows have of it."""
        return self.variables if self.kind in ("inner", "optional") else ()


@dataclass(frozen=True, slots=True)
class BlockFilter:
    """A condition of a block; it is applied as soon as its variables are bound, or where a plan has it as an operator."""

    name: str
    condition: Expression
    variables: frozenset[str]


@dataclass(frozen=True, slots=True)
class Block:
    """Joins of stream occurrences and static relations, with filters; ``output`` are the variables used above.

    All joins are inner joins but those of units: static relations on the right of an OPTIONAL, a MINUS or an EXISTS.
    """

    name: str
    occurrences: tuple[PatternOccurrence, ...]
    statics: tuple[Static, ...]
    filters: tuple[BlockFilter, ...]
    output: tuple[str, ...]
    written: tuple[str, ...] = ()  # relation names in the order in which the query names them
    parts: tuple[Static, ...] = ()  # what other designs of ``statics`` are made of; none: there are no others
    needed: frozenset[str] = frozenset()  # variables of the parts that are read outside them
    budget: int = 0  # bytes that its sub-results may take

    @property
    def inner(self) -> tuple[Static, ...]:
        """The static relations that are joined by inner joins: what designs differ in."""
        return tuple(static for static in self.statics if static.kind == "inner")

    @property
    def units(self) -> tuple[Static, ...]:
        """The others, which are the same under every design."""
        return tuple(static for static in self.statics if static.kind != "inner")


# ------------------------------------------------------------------ above the blocks
@dataclass(frozen=True, slots=True)
class BlockNode:
    """The rows of a block."""

    block: str


@dataclass(frozen=True, slots=True)
class StaticNode:
    """A static relation, valid always."""

    static: Static


@dataclass(frozen=True, slots=True)
class ValuesNode:
    """Inline data as ids."""

    variables: tuple[str, ...]
    rows: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class JoinNode:
    """Compatible rows of both sides."""

    left: Tree
    right: Tree


@dataclass(frozen=True, slots=True)
class LeftJoinNode:
    """OPTIONAL. ``tests`` are the EXISTS and timestamp() of its condition, which reads their flags; their inputs are the joined rows."""

    left: Tree
    right: Tree
    condition: Expression | None
    tests: tuple[ExistsNode, ...] = ()


@dataclass(frozen=True, slots=True)
class UnionNode:
    """All rows of all parts."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class MinusNode:
    """MINUS. Variables ``apart`` must agree as others do, but do not count as shared."""

    left: Tree
    right: Tree
    apart: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExistsNode:
    """The input with one more column, ``flag``: the id of true where the pattern has a compatible row, else of false.

    With ``reads`` the pattern hangs on the row inside as well, through these variables: it is evaluated for each row of the input.
    """

    input: Tree
    pattern: Tree
    condition: Expression | None
    flag: str
    reads: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class StampNode(ExistsNode):
    """The input with one more column, ``flag``: the time that the pattern, in its variable ``time``, has for the values of ``keys``.

    Unbound where one of these is, or where the pattern has no row of them. It looks things up as EXISTS does: C-SPARQL's timestamp().
    """

    keys: tuple[str, ...] = ()
    time: str = ""


@dataclass(frozen=True, slots=True)
class FilterNode:
    """Rows whose condition is effectively true."""

    input: Tree
    condition: Expression


@dataclass(frozen=True, slots=True)
class ClosureNode:
    """Paths of repeated steps, each pair of ends once. ``edges`` binds ``here`` and ``there``; ``nodes`` has the paths of length zero.

    An end is the name of a variable or the id of a term. ``graph`` is the variable of the graph that a path stays in. With a constant
    end ``nodes`` does not bind ``here``.
    """

    edges: Tree
    nodes: Tree | None
    here: str
    there: str
    start: str | int
    end: str | int
    graph: str | None
    many: bool

    @property
    def variables(self) -> tuple[str, ...]:
        """What it binds, on every row."""
        return tuple(dict.fromkeys(v for v in (self.graph, self.start, self.end) if isinstance(v, str)))


@dataclass(frozen=True, slots=True)
class ExtendNode:
    """BIND."""

    input: Tree
    variable: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class ProjectNode:
    """The rows restricted to variables."""

    input: Tree
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DistinctNode:
    """DISTINCT, by these variables."""

    input: Tree
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupNode:
    """GROUP BY: for each group a step function of time. ``whole`` names what COUNT(DISTINCT *) looks at."""

    input: Tree
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]
    implicit: bool
    whole: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OrderNode:
    """ORDER BY, OFFSET and LIMIT together. ``ties`` are the variables whose terms order rows of equal keys.

    Rows of each value of ``each`` are cut by themselves.
    """

    input: Tree
    keys: tuple[tuple[Expression, bool], ...]
    offset: int
    limit: int | None
    ties: tuple[str, ...]
    each: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FreshBlank:
    """A blank node of a template: one for each solution, that is, for the values of all variables of the input."""

    label: str
    solution: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuotedPlace:
    """A triple term of a template, made anew from each row."""

    s: Place
    p: Place
    o: Place


@dataclass(frozen=True, slots=True)
class TripleNode:
    """A triple of a CONSTRUCT template for each row: a variable's value, the id of a constant, a blank node or a triple term in each
    place.

    Rows that would give no triple (something unbound, or of a kind that cannot stand there) are left out.
    """

    input: Tree
    places: tuple[Place, Place, Place]


@dataclass(frozen=True, slots=True)
class DescribeNode:
    """The triples of a graph (its columns are :data:`TRIPLE`) about the values of some variables of the input.

    They are those with such a value as subject and, from blank nodes in their object places, on (concise bounded descriptions).
    """

    input: Tree
    graph: Tree
    variables: tuple[str, ...]


Place: TypeAlias = Variable | int | FreshBlank | QuotedPlace
TRIPLE = (".s", ".p", ".o")
"""The columns of triples that are answers."""

Tree: TypeAlias = (
    BlockNode
    | StaticNode
    | ValuesNode
    | JoinNode
    | LeftJoinNode
    | UnionNode
    | MinusNode
    | ExistsNode
    | ClosureNode
    | FilterNode
    | ExtendNode
    | ProjectNode
    | DistinctNode
    | GroupNode
    | OrderNode
    | TripleNode
    | DescribeNode
)

ROW_WISE = (BlockNode, UnionNode, FilterNode, ExtendNode, ProjectNode)


def children(tree: Tree) -> tuple[Tree, ...]:
    """The inputs of a node."""
    match tree:
        case LeftJoinNode(left, right, _, tests):
            return (left, right, *(test.pattern for test in tests))
        case JoinNode(left, right) | MinusNode(left, right):
            return (left, right)
        case ExistsNode(inner, pattern) | DescribeNode(inner, pattern):
            return (inner, pattern)
        case UnionNode(parts):
            return parts
        case ClosureNode(edges, nodes):
            return (edges,) if nodes is None else (edges, nodes)
        case BlockNode() | StaticNode() | ValuesNode():
            return ()
        case _:
            return (tree.input,)


def block_names(tree: Tree) -> frozenset[str]:
    """The blocks that a tree reads."""
    mine = {tree.block} if isinstance(tree, BlockNode) else set[str]()
    return frozenset(mine).union(*map(block_names, children(tree)))


def is_row_wise(tree: Tree) -> bool:
    """Whether each answer comes from one row of one block: then a live row that neither begins nor ends says nothing new."""
    if isinstance(tree, FilterNode | ExtendNode) and uses_now(
        tree.condition if isinstance(tree, FilterNode) else tree.expression
    ):
        return False
    return isinstance(tree, ROW_WISE) and all(map(is_row_wise, children(tree)))


@dataclass(frozen=True, slots=True)
class Instances:
    """The queries that a program stands for: they differ in constants only. Their numbers count on from one addition to the next."""

    names: str  # the file of their names
    count: int
    since: int  # the least number of those that the last change brought
    last: int  # the greatest number


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A query, compiled, or several that differ in constants only. ``store`` is the folder of the static store."""

    id: str
    variables: tuple[str, ...]
    blocks: tuple[Block, ...]
    tree: Tree
    windows: tuple[Window, ...]
    report: Report
    operator: str
    store: str
    scheme: IdScheme
    output: str | None = None  # the stream that its answers are, in angle brackets, where its text names it
    given: tuple[
        Extension | Family, ...
    ] = ()  # functions and distributions of a user: registered wherever the program is unpacked
    instances: Instances | None = None
    aside: tuple[Shape, ...] = ()  # patterns that static data answer now: their slots are kept for other versions of these

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its answers: the variables, and the number of the instance where it stands for several queries."""
        return self.variables if self.instances is None else (*self.variables, INSTANCE.name)

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the query reads, in order of first use."""
        return tuple(dict.fromkeys(w.stream for w in self.windows))

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The slots that the query needs."""
        found = (part.shape for b in self.blocks for o in b.occurrences for part in o.parts)
        return tuple(dict.fromkeys((*found, *self.aside)))

    def seeing(self, since: int) -> CompiledProgram:
        """The query where no element up to a time is seen."""

        def later(o: PatternOccurrence) -> PatternOccurrence:
            return replace(o, since=since, others=tuple(map(later, o.others)))

        return replace(self, blocks=tuple(replace(b, occurrences=tuple(map(later, b.occurrences))) for b in self.blocks))

    @property
    def row_wise(self) -> bool:
        """See :func:`is_row_wise`."""
        return is_row_wise(self.tree)
