"""Passes: rewrites of a query's algebra before it is translated to a logical plan.

A pass is a function from an algebra tree to an equivalent one, in a module of its own. Its docstring has an example, which is a test
(``tests/compiler/test_rewrites.py``). Rewrites that read blocks or static relations are rules (:mod:`cqels_opt.compiler.rules`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from cqels_opt.compiler.passes.count_for_ask import count_for_ask
from cqels_opt.compiler.passes.drop_disjoint_minus import drop_disjoint_minus
from cqels_opt.compiler.passes.drop_invisible_order import drop_invisible_order
from cqels_opt.compiler.passes.identify_draws import identify_draws
from cqels_opt.compiler.passes.restrict_named_graphs import restrict_named_graphs
from cqels_opt.query.algebra import Algebra, Query

Pass: TypeAlias = Callable[[Algebra, Query], Algebra]

PASSES: Final[tuple[Pass, ...]] = (
    identify_draws,
    restrict_named_graphs,
    drop_disjoint_minus,
    drop_invisible_order,
    count_for_ask,
)
"""All passes, in the order in which they are applied."""


def apply_passes(query: Query) -> Algebra:
    """The body of a query after all passes. Its ``operator`` is that of the profile where the text has none."""
    body = query.body
    for rewrite in PASSES:
        body = rewrite(body, query)
    return body
