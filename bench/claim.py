"""A claim of an evaluation: what is aimed at, the figure, and whether it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement with the report's value (or the goal), the measured value, whether it holds, and otherwise the reason."""

    text: str
    published: str
    ours: str
    holds: bool
    reason: str

    @property
    def is_goal(self) -> bool:
        """Whether the aim is a goal of the project; otherwise it is a statement of the report."""
        return "goal" in self.published

    @property
    def verdict(self) -> str:
        """Whether the claim holds, in the words for its aim."""
        return "not " * (not self.holds) + ("met" if self.is_goal else "reproduced")

    @property
    def row(self) -> tuple[str, ...]:
        """The line of a table with the columns :data:`HEADS`; only a claim that fails needs a reason."""
        return (self.text, self.published, self.ours, self.verdict, "" if self.holds else self.reason)


HEADS = ("claim", "aim", "figure", "verdict", "reason")
"""The columns of the table of claims."""


def summary(found: Sequence[Claim]) -> str:
    """One sentence: how many of the report's statements and of the project's goals hold."""
    parts = []
    for of_goals, text in ((False, "statements of the report are reproduced"), (True, "goals of the project are met")):
        mine = [claim.holds for claim in found if claim.is_goal == of_goals]
        if mine:
            parts.append(f"{sum(mine)} of {len(mine)} {text}")
    return f"{'; '.join(parts)}." if parts else "No claim was measured."
