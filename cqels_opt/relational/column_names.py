"""Names of columns in SQL text."""

from __future__ import annotations


def quoted(*path: str) -> str:
    """A column or its path, quoted for Spark SQL."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in path)
