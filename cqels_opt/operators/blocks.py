"""Blocks of joins as executors receive them: stream patterns, static relations and filters. Relations are named by where they lie."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cqels_opt.lod.store import StaticPattern
from cqels_opt.plans import JoinKind
from cqels_opt.query.algebra import Expression, Window
from cqels_opt.windows.binding_slots import Shape
from cqels_opt.windows.intervals import BEFORE_TIME
from cqels_opt.windows.kinds import kind_of


@dataclass(frozen=True, slots=True)
class PatternOccurrence:
    """A stream pattern of a block: a delta source. ``variables[i]`` names binding column ``v<i>`` of the shape's slots.

    Where windows and static data are merged it is the sum of its ``parts``, one for each window, and of the matching ``static`` triples.
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
    since: int = int(BEFORE_TIME)  # elements up to this time were there before the query, which does not see them

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
        """The streams at whose ranks rows end: those of its windows of the last n elements."""
        return tuple(dict.fromkeys(part.window.stream for part in self.parts if kind_of(part.window).counts_elements))


@dataclass(frozen=True, slots=True)
class Static:
    """A static relation of a block: a pattern on the store, or a sub-result or sub-select in a folder of its own."""

    name: str
    variables: tuple[str, ...]
    at: StaticPattern | str
    rows: int
    patterns: int = 1  # how many triple patterns it joins
    partial: bool = False  # some rows leave a variable unbound
    of: int = 0  # which of its block's parts it joins, as bits
    kind: JoinKind = "inner"  # how a block joins it; other than inner: a unit (OPTIONAL, MINUS, EXISTS)
    on: tuple[str, ...] = ()  # of a unit: the variables that it shares with the patterns before it
    reads: tuple[str, ...] = ()  # of a unit: the other variables of the left side that its condition reads
    condition: Expression | None = None  # of a unit: which of its rows count for a row of the left side

    @property
    def binds(self) -> tuple[str, ...]:
        """The variables that a block's rows have of it."""
        return self.variables if self.kind in ("inner", "optional") else ()


@dataclass(frozen=True, slots=True)
class BlockFilter:
    """A condition of a block. It is applied as soon as its variables are bound, or where a plan has it as an operator."""

    name: str
    condition: Expression
    variables: frozenset[str]


@dataclass(frozen=True, slots=True)
class Block:
    """Joins of stream occurrences and static relations, with filters; ``output`` are the variables used above.

    All joins are inner joins except those of units: static relations on the right of an OPTIONAL, a MINUS or an EXISTS.
    """

    name: str
    occurrences: tuple[PatternOccurrence, ...]
    statics: tuple[Static, ...]
    filters: tuple[BlockFilter, ...]
    output: tuple[str, ...]
    written: tuple[str, ...] = ()  # relation names in the order in which the query names them
    parts: tuple[Static, ...] = ()  # the relations that other designs of ``statics`` join; none: there is one design
    needed: frozenset[str] = frozenset()  # variables of the parts that are read outside these
    budget: int = 0  # bytes that its sub-results may take

    @property
    def momentary(self) -> tuple[PatternOccurrence, ...]:
        """The occurrences of which rows are valid for an instant, where there are several: they mostly match triples of one element."""
        found = [o for o in self.occurrences if not o.merged and not o.ranked and kind_of(o.window).extent <= 1.0]
        return tuple(found) if len(found) > 1 else ()

    @property
    def inner(self) -> tuple[Static, ...]:
        """The static relations that are joined by inner joins: what designs differ in."""
        return tuple(static for static in self.statics if static.kind == "inner")

    @property
    def units(self) -> tuple[Static, ...]:
        """The other static relations, which are the same under every design."""
        return tuple(static for static in self.statics if static.kind != "inner")
