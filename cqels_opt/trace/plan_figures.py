"""Costs and statistics of plans as text, for the views of a trace."""

from __future__ import annotations

from collections.abc import Sequence

from cqels_opt.plans.figures import in_words, seconds
from cqels_opt.trace.figures import figure, known
from cqels_opt.trace.records import Moved


def cost_figure(number: float | None, unit: str | None) -> str:
    """A cost, with its unit where the trace has it in seconds; ``-`` for None."""
    return figure(number) if number is None or unit != "s" else seconds(number)


def moved_statistic(moved: Moved) -> str:
    """A statistic that changed, in words: ``rows of ls30: 1,500 -> 150,000``; shares in percent."""
    was, now = moved_values(moved)
    return f"{in_words(moved.statistic)}: {was} -> {now}"


def moved_values(moved: Moved) -> tuple[str, str]:
    """The values of a statistic that changed, before and now."""
    share = moved.statistic.startswith("selectivity(")
    was, now = (f"{figure(100 * value)} %" if share and value is not None else known(value) for value in (moved.was, moved.now))
    return was, now


def moved_statistics(reason: Sequence[Moved]) -> str:
    """The first two statistics that changed the order of plans, and the number of the others."""
    moved = [moved_statistic(m) for m in reason]
    return "; ".join(moved[:2]) + (f"; and {len(moved) - 2} more" if len(moved) > 2 else "") if moved else "no reason named"
