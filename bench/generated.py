"""The interface of data generators: requests and generated data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Request:
    """The input of a generator: the seed, and elements per second for ``window`` seconds, which fill a window, and then ``seconds``.

    Without a ``rate`` the data have their own times. ``folder`` is that of the scenario's file: paths in its parameters are
    relative to it.
    """

    seed: int
    rate: float | None
    seconds: int
    window: int
    folder: Path = Path()

    @property
    def elements(self) -> int:
        """The total number of elements, if there is a rate."""
        return round((self.rate or 0) * (self.window + self.seconds))


@dataclass(frozen=True, slots=True)
class Data:
    """The files of a scenario: streams and named graphs by IRI without brackets; and a description for readers of the results."""

    streams: Mapping[str, Path]
    static: tuple[Path, ...] = ()
    graphs: Mapping[str, Path] = field(default_factory=dict)
    description: str = ""
