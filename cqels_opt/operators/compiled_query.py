"""A compiled query as its executors receive it: blocks of joins, the operators above them, and when answers are emitted.

Everything here is frozen data that pickles small. The compiler imports operators from here.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeAlias

from cqels_opt.operators.algebra.block import BlockNode as BlockNode
from cqels_opt.operators.algebra.closure import ClosureNode as ClosureNode
from cqels_opt.operators.algebra.describe import DescribeNode as DescribeNode
from cqels_opt.operators.algebra.distinct import DistinctNode as DistinctNode
from cqels_opt.operators.algebra.exists import ExistsNode as ExistsNode
from cqels_opt.operators.algebra.extend import ExtendNode as ExtendNode
from cqels_opt.operators.algebra.filter import FilterNode as FilterNode
from cqels_opt.operators.algebra.group import GroupNode as GroupNode
from cqels_opt.operators.algebra.join import JoinNode as JoinNode
from cqels_opt.operators.algebra.left_join import LeftJoinNode as LeftJoinNode
from cqels_opt.operators.algebra.minus import MinusNode as MinusNode
from cqels_opt.operators.algebra.operator import Operator as Operator
from cqels_opt.operators.algebra.order import OrderNode as OrderNode
from cqels_opt.operators.algebra.project import ProjectNode as ProjectNode
from cqels_opt.operators.algebra.static import StaticNode as StaticNode
from cqels_opt.operators.algebra.timestamp import StampNode as StampNode
from cqels_opt.operators.algebra.union import UnionNode as UnionNode
from cqels_opt.operators.algebra.values import ValuesNode as ValuesNode
from cqels_opt.operators.blocks import Block, PatternOccurrence
from cqels_opt.operators.key_pushdown import Pushdown
from cqels_opt.operators.typed_columns import ColumnTypes
from cqels_opt.query.algebra import Window
from cqels_opt.query.extensions import Extension
from cqels_opt.query.templates import INSTANCE
from cqels_opt.query.uncertainty.families import Family
from cqels_opt.rdf.ids import IdScheme
from cqels_opt.windows.binding_slots import Shape
from cqels_opt.windows.instants import Report

Tree: TypeAlias = Operator
"""An operator with everything below it."""


@dataclass(frozen=True, slots=True)
class Instances:
    """The queries that share a program: they differ in constants only. Numbers of queries that are added continue those before."""

    names: str  # the file of their names
    count: int
    since: int  # the least number of the queries that the last change added
    last: int  # the greatest number


@dataclass(frozen=True)
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
    output: str | None = None  # the stream of its answers, in angle brackets, where its text names it
    # functions and distributions of a user: registered wherever the program is unpacked
    extensions: tuple[Extension | Family, ...] = ()
    instances: Instances | None = None
    aside: tuple[Shape, ...] = ()  # patterns that static data answer: their slots are kept for other versions of these data
    types: ColumnTypes = ()  # of columns in DataFrames and Parquet

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its answers: the variables, and the number of the query where several share the program."""
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

    @property
    def momentary(self) -> frozenset[Shape]:
        """The shapes of :attr:`Block.momentary` occurrences."""
        return frozenset(o.shape for b in self.blocks for o in b.momentary)

    def seeing(self, since: int) -> CompiledProgram:
        """The program that does not see elements up to a time."""

        def later(o: PatternOccurrence) -> PatternOccurrence:
            return replace(o, since=since, others=tuple(map(later, o.others)))

        return replace(self, blocks=tuple(replace(b, occurrences=tuple(map(later, b.occurrences))) for b in self.blocks))

    @property
    def row_wise(self) -> bool:
        """Whether each answer comes from one row of one block."""
        return self.tree.row_wise

    @cached_property
    def pushdown(self) -> Pushdown:
        """What is known of its tree."""
        return Pushdown(self.tree, self.blocks, self.variables)

    def __getstate__(self) -> dict[str, Any]:
        """The fields, without what is derived from them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
