"""What the commands did, as data; the command line prints it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cqels_opt.trace.figures import plural


@dataclass(frozen=True, slots=True)
class Summary:
    """A run at its end, also where it was stopped: ``stopped`` is true after Ctrl-C."""

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

    def __str__(self) -> str:
        """Two or three lines for a terminal."""
        lines = [
            f"{'stopped after ' if self.stopped else ''}{plural(self.batches, 'batch')}, {plural(self.elements, 'element')}"
            f" ({self.late:,} late, {self.rejected:,} rejected), {plural(self.answers, 'answer')},"
            f" {plural(self.switches, 'plan switch')}, {self.seconds:.1f} s"
        ]
        lines += [f"rejected elements and why: {self.rejects}"] if self.rejects else []
        lines += [f"trace: {self.trace}"] if self.trace else []
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """A comparison with the independent evaluation; ``differences`` are lines for people, the first ones if there are many."""

    instants: int
    answers: int
    different: int
    differences: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether every answer of every instant was the same."""
        return self.different == 0

    def __str__(self) -> str:
        """One line, and one for each difference."""
        compared = f"{plural(self.answers, 'answer')} at {plural(self.instants, 'instant')} compared"
        if self.agrees:
            return f"{compared}: all are the same"
        return "\n".join([f"{compared}: {plural(self.different, 'difference')}", *self.differences])


@dataclass(frozen=True, slots=True)
class LoadReport:
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
class UpdateReport:
    """A store that has another version."""

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
