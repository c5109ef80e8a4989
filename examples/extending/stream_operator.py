"""A relation-to-stream operator that another package adds: ``--output-operator changed`` emits each answer whose number changes.

The package declares it in its ``pyproject.toml``; cqels-opt stays as it is:

    [project.entry-points."cqels_opt.stream_operators"]
    changed = "stream_operator:Changed"
"""

import numpy as np

from cqels_opt.operators.rows import Ints
from cqels_opt.operators.stream_operators import ChangeOperator


class Changed(ChangeOperator):
    """What ISTREAM and DSTREAM emit, in one stream: an answer appears once for each occurrence that was added or removed."""

    sign = "~"

    def emitted(self, change: Ints) -> Ints:
        """The size of the change, in whichever direction."""
        return np.abs(change)
