"""Heuristics H1 and H2 of Keskisärkkä et al. 2021 (§4.1) as ranks of a block's relations; H3 and H4 place filters
(``plans/predicate_placement.py``).

Windows stay in the order written. Within each, H2 puts patterns of a named graph before those of any graph, and H1 orders patterns
by the positions of their constants.
"""

from __future__ import annotations

from collections.abc import Sequence

from cqels_opt.lod.store import StaticPattern
from cqels_opt.operators.blocks import Block, PatternOccurrence, Static

MOST_SELECTIVE_FIRST = ("spo", "s?o", "?po", "sp?", "??o", "s??", "?p?", "???")
"""H1: the positions of constants; ``?`` is a variable."""


def ranks(block: Block, graphs: bool) -> dict[str, tuple[int, ...]]:
    """The rank of each relation; ``graphs``: also by H2. A sub-result is one relation, before single patterns."""
    windows = list(dict.fromkeys(o.window.name for o in block.occurrences))
    found = {o.name: (windows.index(o.window.name), *_of_window(o, graphs)) for o in block.occurrences}
    return found | {s.name: (len(windows), *_of_static(s, graphs)) for s in block.statics}


def _of_window(occurrence: PatternOccurrence, graphs: bool) -> tuple[int, ...]:
    *triple, graph = (*occurrence.shape.constants, 0)[:4]
    any_graph = len(occurrence.shape.constants) > 3 and not graph
    return int(graphs and any_graph), _by_places([bool(constant) for constant in triple])


def _of_static(static: Static, graphs: bool) -> tuple[int, ...]:
    if not isinstance(static.at, StaticPattern):
        return 0, -1
    at = static.at
    return int(graphs and isinstance(at.graph, str)), _by_places([isinstance(term, int) for term in (at.s, at.p, at.o)])


def _by_places(constant: Sequence[bool]) -> int:
    return MOST_SELECTIVE_FIRST.index("".join(place if known else "?" for place, known in zip("spo", constant)))
