"""The interface of studies, which measure and display by themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Study:
    """A study: its title, its measurement (``quick``: small), its display, and whether its full size needs ``spark``."""

    title: str
    study: Callable[[bool], dict[str, Any]]
    show: Callable[[dict[str, Any]], None]
    spark: bool = False
