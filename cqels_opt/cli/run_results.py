"""The results of commands as data, with their text for the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cqels_opt.trace.figures import plural


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a run; ``stopped`` is true after Ctrl-C, and ``printed`` are the answers that ``--limit`` let through."""

    batches: int
    elements: int
    answers: int
    late: int = 0
    rejected: int = 0
    switches: int = 0
    seconds: float = 0.0
    trace: Path | None = None
    rejects: Path | None = None
    stopped: bool = False
    printed: int | None = None

    def __str__(self) -> str:
        """Two or three lines for a terminal."""
        cut = f" ({self.printed:,} printed)" if self.printed is not None and self.printed < self.answers else ""
        lines = [
            f"{'stopped after ' if self.stopped else ''}{plural(self.batches, 'batch')}, {plural(self.elements, 'element')}"
            f" ({self.late:,} late, {self.rejected:,} rejected), {plural(self.answers, 'answer')}{cut},"
            f" {plural(self.switches, 'plan switch')}, {self.seconds:.1f} s"
        ]
        lines += [f"rejected elements and why: {self.rejects}"] if self.rejects else []
        lines += [f"trace: {self.trace}"] if self.trace else []
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class VerifySummary:
    """A comparison with the independent evaluation; ``differences`` are lines for people, at most the first ones.

    ``unjudged`` has a line for each query that no engine of the evaluation can evaluate.
    """

    instants: int
    answers: int
    different: int
    differences: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether all answers of all instants were equal."""
        return self.different == 0

    def __str__(self) -> str:
        """One line, and one per difference."""
        compared = f"{plural(self.answers, 'answer')} at {plural(self.instants, 'instant')} compared"
        same = "all are the same" if self.agrees else plural(self.different, "difference")
        judged = [f"{compared}: {same}"] if self.answers or not self.unjudged else []
        return "\n".join([*judged, *self.differences, *self.unjudged])


@dataclass(frozen=True, slots=True)
class LoadSummary:
    """A store that was written."""

    store: Path | str
    triples: int
    rejected: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        """One line."""
        rejected = f" ({plural(self.rejected, 'line')} rejected)" if self.rejected else ""
        return f"{plural(self.triples, 'triple')} in {self.store}{rejected}, {self.seconds:.1f} s"


@dataclass(frozen=True, slots=True)
class UpdateSummary:
    """A new version of a store."""

    store: Path | str
    number: int
    added: int
    removed: int
    triples: int
    rejected: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        """One line."""
        rejected = f" ({plural(self.rejected, 'line')} rejected)" if self.rejected else ""
        return (
            f"version {self.number} of {self.store}: {self.added:,} added, {self.removed:,} removed,"
            f" {plural(self.triples, 'triple')}{rejected}, {self.seconds:.1f} s"
        )
