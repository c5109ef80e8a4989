"""The user's folder for what can be made again: measured constants, parser tables, and Spark's classes."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``cqels-opt`` in ``$XDG_CACHE_HOME`` or in ``~/.cache``. RuntimeError if the user has no home folder."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "cqels-opt"
