"""What brings its own measurements, and its own way to show them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Study:
    """A study: its title, what measures (``quick`` at a small size) and what shows the result."""

    title: str
    study: Callable[[bool], dict[str, Any]]
    show: Callable[[dict[str, Any]], None]
