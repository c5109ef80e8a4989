"""The console for the tables of studies."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Column, Table

WIDE = 140
"""The width of a table in a file or a pipe."""


def console(wide: int = WIDE) -> Console:
    """Standard output with the terminal's width, or ``wide`` in a file or a pipe. It prints texts as they are, also with brackets."""
    return Console(width=None if sys.stdout.isatty() else wide, markup=False, emoji=False)


def numbers(*heads: str) -> Iterator[Column]:
    """The columns of numbers of a table."""
    return (Column(head, justify="right") for head in heads)


def table(*heads: Column | str, **options: Any) -> Table:
    """A table of rich; in a file or a pipe it is Markdown, for a page of the documentation."""
    return Table(*heads, box=box.HEAVY_HEAD if sys.stdout.isatty() else box.MARKDOWN, **options)
