"""What generators of scenarios are asked for, and what they give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a generator: the seed, elements a second (None: the data's own times) for ``seconds``, after what fills ``window``.

    ``folder`` is that of the scenario's file: paths in its parameters are relative to it.
    """

    seed: int
    rate: float | None
    seconds: int
    window: int
    folder: Path = Path()

    @property
    def filling(self) -> int:
        """Elements that fill the window before the first second that counts."""
        return round((self.rate or 0) * self.window)

    @property
    def elements(self) -> int:
        """All elements, where there is a rate."""
        return self.filling + round((self.rate or 0) * self.seconds)


@dataclass(frozen=True, slots=True)
class Data:
    """Files of a scenario: streams and named graphs by IRI without brackets; and what a reader of the figures should know of them."""

    streams: Mapping[str, Path]
    static: tuple[Path, ...] = ()
    graphs: Mapping[str, Path] = field(default_factory=dict)
    description: str = ""
