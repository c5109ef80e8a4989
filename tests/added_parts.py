"""Parts of other packages as if these were installed."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from inspect import unwrap
from pathlib import Path

import pytest

from cqels_opt import plugins

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "extending"


def install(monkeypatch: pytest.MonkeyPatch, *entries: EntryPoint) -> None:
    """Makes these the only entry points, and the examples' modules importable, until the test ends."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr("importlib.metadata.entry_points", EntryPoints(entries).select)
    monkeypatch.setattr(plugins, "_installed", unwrap(plugins._installed))  # not cached
