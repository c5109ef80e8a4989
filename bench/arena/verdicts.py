"""One verdict per query and rival: the rival's CPU time over the engine's, for the batches that both completed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cqels_opt.bench.arena.worker import Measured
from cqels_opt.bench.contenders import Task
from cqels_opt.bench.measure import Ran
from cqels_opt.errors import RunError

OURS, REFERENCE = "adaptive", "pyoxigraph"
"""The engine, and the rival that is also the independent evaluation of all answers."""
LOST, EVEN, WON, OTHER_ANSWERS, FAILED, CANNOT = "lost", "even", "won", "other answers", "failed", "cannot say"
NOT_COMPARED = "not compared"
"""A rival stopped so early that neither its answers nor its CPU time decide anything."""
ORDER = (LOST, EVEN, WON, OTHER_ANSWERS, FAILED, CANNOT, NOT_COMPARED)
CLOSE = 1.1
"""Ratios between 1/CLOSE and CLOSE are ``even``."""


def rows(workload: str, task: Task, found: Mapping[str, Measured], warm_up: int) -> list[dict[str, Any]]:
    """A row per rival. RunError if the engine failed, or gives other answers than the independent evaluation."""
    ours = found[OURS]
    if ours.ran.why is not None and ours.ran.upto is None:
        raise RunError(f"{workload} {task.query}: the engine: {ours.ran.why}")
    reference = found.get(REFERENCE)
    checked = 0
    if reference is not None and not _unfinished(reference.ran):
        upto = _upto(ours.ran, reference.ran)
        if (differs := ours.ran.bag.difference(reference.ran.bag, upto)) is not None:
            raise RunError(f"{workload} {task.query}: the engine gives other answers than the independent evaluation: {differs}")
        checked = reference.ran.bag.until(upto)
    shared = {"workload": workload, "query": task.query, "checked": checked}
    return [shared | _row(ours, other, warm_up) for name, other in found.items() if name != OURS]


def _row(ours: Measured, other: Measured, warm_up: int) -> dict[str, Any]:
    row: dict[str, Any] = {"rival": other.ran.contender, "why": other.ran.why, "answers": other.ran.bag.total}
    if _unfinished(other.ran):
        failed = str(other.ran.why).startswith("failed: ")
        return {**row, "verdict": FAILED if failed else CANNOT}
    upto = _upto(ours.ran, other.ran)
    if other.ran.answers and (differs := other.ran.bag.difference(ours.ran.bag, upto)) is not None:
        return {**row, "verdict": OTHER_ANSWERS, "why": f"{differs} of the engine"}
    if other.ran.answers and ours.ran.bag.total and not ours.ran.bag.until(upto):
        return _not_compared(row, "the engine's first answer is later")
    batches, lower_bound = compared(ours, other, warm_up), False
    if not batches:
        batches, lower_bound = range(min(len(ours.cpu), len(other.cpu))), True
    if not batches:
        return _not_compared(row, "it completed no micro-batch")
    sides = {"ours": figures(ours, batches), "theirs": figures(other, batches)}
    ratio = sides["theirs"]["cpu_ms"] / max(sides["ours"]["cpu_ms"], 1e-3)
    if lower_bound and ratio <= CLOSE:
        return _not_compared(row, f"a part of a micro-batch took {ratio:.2f}× of the engine's CPU time for all of it")
    verdict = LOST if ratio < 1 / CLOSE else WON if ratio > CLOSE else EVEN
    marks = {"lower_bound": lower_bound, "in_warm_up": batches.stop <= warm_up}
    return {**row, "verdict": verdict, "cpu_ratio": ratio, "batches": len(batches), **marks, **sides}


def _not_compared(row: Mapping[str, Any], reason: str) -> dict[str, Any]:
    return {**row, "verdict": NOT_COMPARED, "why": "; ".join(filter(None, (row["why"], reason)))}


def compared(ours: Measured, other: Measured, warm_up: int) -> range:
    """The batches that both completed, without the first ``warm_up`` unless there are no others, or one ran all at once."""
    both = min(len(one.cpu) - one.unfinished for one in (ours, other))
    return range(warm_up if both > warm_up and not (ours.whole or other.whole) else 0, both)


def figures(one: Measured, batches: Sequence[int]) -> dict[str, Any]:
    """CPU and wall-clock milliseconds per batch (means), also by phase; peak memory; and seconds to the first answer."""
    count = max(1, len(batches))
    phases = [one.ran.phases[number] for number in batches if one.ran.phases[number]]
    return {
        "cpu_ms": sum(one.cpu[number] for number in batches) / count,
        "wall_ms": sum(one.ran.milliseconds[number] for number in batches) / count,
        "peak_mb": one.peak_mb,
        "first_answer_s": one.first_answer,
        "prepared_s": one.ran.prepared,
        "phases": {name: sum(p.get(name, 0.0) for p in phases) / count for name in (phases[0] if phases else ())},
    }


def in_order(found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The losses first, the greatest before the others."""
    return sorted(found, key=lambda row: (ORDER.index(row["verdict"]), row.get("cpu_ratio", 0.0)))


def _unfinished(ran: Ran) -> bool:
    """Whether a run has no complete answers up to any time."""
    return ran.why is not None and ran.upto is None


def _upto(*runs: Ran) -> int | None:
    """The time up to which the answers of all runs are complete; None: to the end."""
    return min((ran.upto for ran in runs if ran.upto is not None), default=None)
