"""A cost model of another package: C_out, the sum of the rows of all intermediate results.

C_out ignores how a join is done, so it compares join orders alone (Leis et al. 2015, *How Good Are Query Optimizers, Really?*, §5). The
package names the class in its ``pyproject.toml``, and ``cqels-opt run --cost-model rows`` uses it::

    [project.entry-points."cqels_opt.cost_models"]
    rows = "my_package.cost_model:RowsCost"
"""

from dataclasses import dataclass

import numpy as np

from cqels_opt.plans import Constants, JoinOperator
from cqels_opt.plans.cost import JoinShape, Rows


@dataclass(frozen=True, slots=True)
class RowsCost:
    """A join costs the rows that it produces. The planner passes its constants, which this model does not need."""

    constants: Constants
    name: str = "rows"
    unit: str = "rows"
    static_is_free: bool = False

    def operators(self, shape: JoinShape) -> tuple[JoinOperator, ...]:
        """One operator for each kind of join."""
        if shape.kind != "inner":
            return (JoinOperator[shape.kind.upper()],)
        return (JoinOperator.HASH,) if shape.connected else (JoinOperator.LOOP,)

    def scan(self, rows: Rows, filtered: Rows) -> Rows:
        """Reading a relation costs nothing."""
        return np.zeros_like(rows)

    def join(self, operator: JoinOperator, left: Rows, right: Rows, produced: Rows, filtered: Rows) -> Rows:
        """The rows that the join produces."""
        return produced
