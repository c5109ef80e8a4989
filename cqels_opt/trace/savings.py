"""What adapting has saved over the plans that were chosen first: both plans priced in the same batches."""

from __future__ import annotations

from dataclasses import dataclass

from cqels_opt.trace.figures import duration, figure, plural
from cqels_opt.trace.records import Delta


def first_plan(delta: Delta, known: str | None) -> str:
    """The first plan of a delta source; ``known`` is that of its earlier choices, until one was chosen from observed rows."""
    return delta.plan if known is None or delta.first else known


@dataclass(frozen=True, slots=True)
class Savings:
    """The plans that ran, compared with the first plan of their delta source, in the unit of the cost model.

    A *choice* is the plan of one delta source in one batch. ``cost`` is the total cost of the plans that ran in the ``compared`` ones of
    all ``choices``, ``saved`` what the first plans would have cost more there (negative: less). ``measured`` are the milliseconds of the
    operators of joins where these were measured, and ``expected`` the costs of the same plans.
    """

    choices: int = 0
    compared: int = 0
    cost: float = 0.0
    saved: float = 0.0
    measured: float = 0.0
    expected: float = 0.0

    @classmethod
    def of_delta(cls, delta: Delta, first: str) -> Savings:
        """Of one choice: in hindsight; where no rows were observed with the regret of a switch, or the difference of estimated costs."""
        if delta.cost is None:
            return cls(1)
        ms = [operator.ms for operator in delta.operators if operator.ms is not None]
        measured = (sum(ms), delta.cost) if ms else (0.0, 0.0)
        if (seen := delta.hindsight) is not None and seen.first is not None:
            return cls(1, 1, seen.cost, seen.first - seen.cost, *measured)
        if delta.plan == first or delta.without_rows:
            return cls(1, 1, delta.cost, 0.0, *measured)
        if delta.regret is not None and delta.former and delta.former[0].plan == first:
            return cls(1, 1, delta.cost, -delta.regret, *measured)
        if (instead := delta.others.get(first)) is not None:
            return cls(1, 1, delta.cost, instead - delta.cost, *measured)
        return cls(1, 0, 0.0, 0.0, *measured)

    def __add__(self, other: Savings) -> Savings:
        return Savings(*(getattr(self, part) + getattr(other, part) for part in self.__slots__))

    @property
    def first(self) -> float:
        """What the first plans would have cost."""
        return self.cost + self.saved

    @property
    def slowdown(self) -> float:
        """The measured over the expected time of joins (1: not measured, or less). Of short joins it has fixed costs that plans share, so
        savings times this are an upper estimate of what was saved on this machine at its load."""
        return max(1.0, self.measured / 1000 / self.expected) if self.expected > 0 else 1.0

    @property
    def share(self) -> float:
        """The savings as a share of what the first plans would have cost; if they are negative, of what the plans that ran cost."""
        whole = self.first if self.saved > 0 else self.cost
        return self.saved / whole if whole > 0 else 0.0


def headline(savings: Savings, switched: int, unit: str | None, planning: float, shared: bool) -> tuple[str, ...]:
    """What adapting saved in one sentence, and sentences that qualify it.

    ``planning`` are the milliseconds of the optimizer, of all queries of the run if they are ``shared``.
    """
    if not savings.choices:
        return ("Nothing is joined: there is no plan to adapt.",)
    if not savings.compared:
        return ("The trace has no costs of plans: what adapting saved is unknown.",)
    took = f"Planning{' of all queries' if shared else ''} took {duration(planning)}."
    if not switched:
        return ("No plan changed: every delta source kept its first plan, so adapting saved nothing.", took)
    seconds = unit == "s"
    verdict = _verdict(savings, seconds, None if shared else planning)
    return (verdict, *([] if "planning took" in verdict else [took]), *_qualifications(savings, seconds))


def _verdict(savings: Savings, seconds: bool, planning: float | None) -> str:
    percent = 100 * abs(savings.share)
    share = (
        f"{percent:.{0 if 10 <= percent < 99 or percent >= 100 else 1}f} %" if not 99.95 <= percent < 100 else "more than 99.9 %"
    )
    if savings.saved > 0:
        if not seconds:
            return f"Adapting saved an estimated {share} of the cost of the first plan."
        amount = (
            f"an estimated {duration(1000 * savings.saved)} of {duration(1000 * savings.first)} over the first plan ({share})"
        )
        if planning is not None and planning > 1000 * savings.saved * savings.slowdown:
            return f"Adapting did not pay off: it saved {amount}, and planning took {duration(planning)}."
        return f"Adapting saved {amount}."
    if savings.saved == 0:
        return "Adapting saved nothing: the plans that ran cost as much as the first plan."
    amount = f"{duration(-1000 * savings.saved)} ({share})" if seconds else share
    return f"Adapting saved nothing: the plans that ran cost an estimated {amount} more than the first plan."


def _qualifications(savings: Savings, seconds: bool) -> tuple[str, ...]:
    found = [
        "The cost model prices both plans in the same batches, with the rows observed there where they are known; the first plan did not "
        "run a second time."
    ]
    if savings.compared < savings.choices:
        missing = savings.choices - savings.compared
        found.append(f"{plural(missing, 'choice')} of {savings.choices:,} could not be compared and are left out.")
    if not seconds:
        found.append("The trace does not have its costs in seconds.")
    elif savings.expected > 0:
        ratio, expected = figure(savings.measured / 1000 / savings.expected), duration(1000 * savings.expected)
        found.append(f"The joins took {duration(savings.measured)} where the model expected {expected} ({ratio} times).")
    return tuple(found)
