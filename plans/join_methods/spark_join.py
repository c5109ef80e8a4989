"""What Spark's own joins have in common: both sides are Spark's rows, and so is the result."""

from __future__ import annotations

from cqels_opt.plans.cost import Constants, Count
from cqels_opt.plans.join_methods.method import JoinInputs, JoinMethod


class SparkJoin(JoinMethod):
    """A join that Spark executes."""

    takes = "spark"
    gives = "spark"

    def applicable(self, join: JoinInputs) -> bool:
        """Every join on variables."""
        return join.operator in ("probe", "hash")


def shuffle(left: Count, right: Count, constants: Constants, tasks: int, start: float = 0.0) -> Count:
    """Both sides through a shuffle whose tasks take ``start`` seconds to start."""
    seconds: Count = constants.stage + start + (left + right) * constants.shuffle / tasks
    return seconds
