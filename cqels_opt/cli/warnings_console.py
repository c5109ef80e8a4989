"""What the commands say on standard error of what they passed over, a line each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from cqels_opt.trace.records import TraceRecord

MOST = 20
"""So many notices of a run are said; the trace has all of them."""


def warn(message: str) -> None:
    """One warning."""
    Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(f"warning: {message}")


class Notices:
    """Says what the batches of a run notice about the input, each sentence once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, records: Sequence[TraceRecord]) -> None:
        """What a batch noticed, which is the same in the record of each query."""
        for sentence in records[0].notices if records else ():
            if sentence not in self._said and len(self._said) < MOST:
                self._said.add(sentence)
                warn(sentence if len(self._said) < MOST else f"{sentence} (further ones are in the trace alone)")
