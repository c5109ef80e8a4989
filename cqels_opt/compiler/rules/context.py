"""What a rewrite rule reads of the compiler."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import NoReturn, Protocol

from cqels_opt.compiler.logical_blocks import LogicalBlock, LogicalPlan
from cqels_opt.query import algebra as a


class Context(Protocol):
    """The compiler, as rules see it."""

    @property
    def late_binds(self) -> bool:
        """Whether a BIND may be evaluated later than written."""

    @property
    def in_static(self) -> bool:
        """Whether the plan is part of a static pattern that is evaluated once, at registration."""

    @property
    def outside(self) -> Set[str]:
        """Inside an EXISTS that is evaluated per row: the variables of the rows outside."""

    @property
    def window_names(self) -> Sequence[str]:
        """The windows of the query."""

    def rewrite(self, plan: LogicalPlan) -> LogicalPlan:
        """Applies the rules to an operator over inputs that are already rewritten."""

    def plan(self, pattern: a.Algebra) -> LogicalPlan:
        """The rewritten plan of a pattern."""

    def plan_per_row(self, pattern: a.Algebra, outside: Set[str]) -> LogicalPlan:
        """The plan of a pattern of EXISTS that is evaluated once per outside row, which binds the variables ``outside``."""

    def fresh_number(self) -> int:
        """A number that no other name of the program has."""

    def has_static_rows(self, block: LogicalBlock) -> bool:
        """Whether the static data alone give rows of a block that reads windows."""

    def refuse(self, message: str) -> NoReturn:
        """Raises QueryError."""
