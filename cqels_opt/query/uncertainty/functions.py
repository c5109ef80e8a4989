"""The functions of RSP-QL* on distributions (Keskisärkkä et al. 2021, Definitions 3 to 7): ``rspu:add``, ``rspu:subtract``,
``rspu:greaterThan``, ``rspu:lessThan`` and ``rspu:between``.

The first argument is a literal of type ``rspu:distribution``, the others are such literals or numbers; anything else is an error
(Definition 14). Arguments are assumed to be independent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from cqels_opt.query.columns import Column, Floats, Numbers
from cqels_opt.query.extensions import register_builtins
from cqels_opt.query.uncertainty import arithmetic

RSPU: Final = "http://w3id.org/rsp/rspu#"
FUNCTIONS: Final = frozenset(f"<{RSPU}{name}>" for name in ("add", "subtract", "greaterThan", "lessThan", "between"))
"""The paper's uncertainty functions; its heuristic H4 applies to filters that call one of them."""


def _probability(function: Callable[..., Floats], *arguments: Column) -> Column:
    return Numbers(function(*arguments))


def install() -> None:
    """Registers these functions."""
    register_builtins(
        (
            (f"{RSPU}add", 2, arithmetic.add, 4e-6),
            (f"{RSPU}subtract", 2, arithmetic.subtract, 4e-6),
            (f"{RSPU}greaterThan", 2, partial(_probability, arithmetic.greater_than), 4e-6),
            (f"{RSPU}lessThan", 2, partial(_probability, arithmetic.less_than), 4e-6),
            (f"{RSPU}between", 3, partial(_probability, arithmetic.between), 6e-6),
        )
    )
