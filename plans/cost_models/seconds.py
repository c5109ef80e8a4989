"""The default cost model: estimated seconds of the project's own operators."""

from __future__ import annotations

from dataclasses import dataclass, field

from cqels_opt.plans.cost import Constants, JoinOperator, JoinShape, Rows, Shuffled, build_factor

STARTS = 3
"""The starts of operators that a multiway join counts as: it looks all rows up, and then probes for those of each relation."""


@dataclass(frozen=True, slots=True)
class SecondsCost:
    """Seconds, from rows read, probed, built, produced, filtered, and ``shuffled`` to where they are joined.

    ``multiway``: relations that close a cycle may be joined at once, unless rows are shuffled to an index.
    """

    constants: Constants = field(default_factory=Constants)
    shuffled: Shuffled = "nothing"
    name: str = "default"
    unit: str = "s"
    static_is_free: bool = False
    multiway: bool = True

    def operators(self, shape: JoinShape) -> tuple[JoinOperator, ...]:
        """An index probe into one relation, a hash join with a bushy right side, a loop for a cross product, a multiway join."""
        if shape.kind != "inner":
            return (JoinOperator[shape.kind.upper()],)
        if not shape.connected:
            return (JoinOperator.LOOP,)
        if shape.closing and self.multiway and self.shuffled == "nothing":
            return (JoinOperator.HASH, JoinOperator.MULTIWAY)
        return (JoinOperator.PROBE,) if shape.single else (JoinOperator.HASH,)

    def scan(self, rows: Rows, filtered: Rows) -> Rows:
        """Every row is read once, and the relation's own filters are evaluated."""
        return rows * self.constants.scan + filtered * self.constants.evaluate

    def join(self, operator: JoinOperator, left: Rows, right: Rows, produced: Rows, filtered: Rows) -> Rows:
        """The work of one join, without that of its inputs."""
        c = self.constants
        if operator is JoinOperator.FILTER:
            return filtered * c.evaluate
        start = STARTS if operator is JoinOperator.MULTIWAY else 1
        after = c.operator * start + produced * c.produce + filtered * c.evaluate
        if operator is JoinOperator.LOOP:
            return after
        if self.shuffled != "nothing":
            after = after + c.shuffle * (left + right if self.shuffled == "both" or operator is JoinOperator.HASH else left)
        if operator is JoinOperator.HASH:
            return after + right * c.build * build_factor(right) + left * c.match
        return after + left * c.look_up(right)
