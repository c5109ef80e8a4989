"""Where the tables of studies are printed."""

from __future__ import annotations

import sys
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

WIDE = 140
"""Columns of a table in a file or a pipe, which have no width of their own."""


def console() -> Console:
    """Standard output, as wide as the terminal that it is."""
    return Console(width=None if sys.stdout.isatty() else WIDE)


def table(*heads: str, **options: Any) -> Table:
    """A table of rich; in a file or a pipe it is written as Markdown, ready for a page of the docs."""
    return Table(*heads, box=box.HEAVY_HEAD if sys.stdout.isatty() else box.MARKDOWN, **options)
