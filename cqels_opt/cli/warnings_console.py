"""Warnings of the commands on standard error, one per line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console

from cqels_opt.errors import EngineWarning
from cqels_opt.trace.figures import plural
from cqels_opt.trace.records import TraceRecord

MOST = 20
"""The maximum number of notices printed per run; the trace has all of them."""


_silent = False


def silence() -> None:
    """Prints no more warnings in this process (``--quiet``)."""
    global _silent
    _silent = True


def show_batch(records: Sequence[TraceRecord]) -> None:
    """One line per micro-batch (``--verbose``)."""
    for record in records[:1]:
        switches = sum(len(one.switches) for one in records)
        plans = (
            "; ".join(f"delta {delta.source}: {delta.plan}" for delta in record.deltas) if switches or not record.batch else ""
        )
        counts = f"{plural(record.elements, 'element')}, {plural(sum(one.answers or 0 for one in records), 'answer')}"
        spent = sum(asdict(record.ms).values())
        print(f"batch {record.batch}: {counts}, {spent:,.0f} ms{f', {plans}' if plans else ''}", file=sys.stderr)


def warn(message: str) -> None:
    """Prints one warning."""
    if _silent:
        return
    Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(f"warning: {message}")


class Notices:
    """Prints the notices of the batches of a run, each sentence once.

    An :class:`EngineWarning` is among the notices of a batch, so Python does not print it as well.
    """

    def __init__(self) -> None:
        self._printed: set[str] = set()
        warnings.simplefilter("ignore", EngineWarning)

    def __call__(self, records: Sequence[TraceRecord]) -> None:
        """Prints the notices of a batch, which are the same in the record of each query."""
        for sentence in records[0].notices if records else ():
            if sentence not in self._printed and len(self._printed) < MOST:
                self._printed.add(sentence)
                warn(sentence if len(self._printed) < MOST else f"{sentence} (further ones are in the trace alone)")
