"""What brings its own measurements, and its own way to show them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Study:
    """A study: its title, what measures (``quick`` at a small size), what shows the result, and whether its full size needs ``spark``."""

    title: str
    study: Callable[[bool], dict[str, Any]]
    show: Callable[[dict[str, Any]], None]
    spark: bool = False
