"""The user's folder for what can be made again: measured constants, parser tables, and Spark's classes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

#: Names the folder for fetched and temporary files; the default is the user's cache folder.
CACHE_VARIABLE: Final = "CQELS_OPT_CACHE"


def cache_folder() -> Path:
    """``cqels-opt`` in ``$XDG_CACHE_HOME`` or in ``~/.cache``. RuntimeError if the user has no home folder."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "cqels-opt"


def fetched_folder() -> Path:
    """The folder of what is fetched from object stores: ``CQELS_OPT_CACHE``, or the user's cache folder."""
    return Path(os.environ.get(CACHE_VARIABLE) or cache_folder()).absolute()
