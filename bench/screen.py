"""Where the tables of studies are printed."""

from __future__ import annotations

import sys

from rich.console import Console

WIDE = 140
"""Columns of a table in a file or a pipe, which have no width of their own."""


def console() -> Console:
    """Standard output, as wide as the terminal that it is."""
    return Console(width=None if sys.stdout.isatty() else WIDE)
