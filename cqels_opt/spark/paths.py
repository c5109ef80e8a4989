r"""Paths for Spark: a path to read is a pattern with special characters ``[ ] { } * ? \``; a path to write is literal."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_SIGNS: Final = re.compile(r"([\[\]{}*?\\])")


def to_read(path: Path) -> str:
    """A path for a reader: a pattern that matches only this path."""
    return literal(str(path.absolute()))


def literal(text: str) -> str:
    """A pattern that matches only this text."""
    return _SIGNS.sub(r"\\\1", text)


def to_write(path: Path) -> str:
    """A path for a writer."""
    return str(path.absolute())


def in_sql(path: Path) -> str:
    """A path as a string literal of Spark SQL."""
    text = str(path.absolute()).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"
