"""Names of columns in SQL text, and of relations and variables in plans."""

from __future__ import annotations

import re
from collections.abc import Container
from itertools import chain, count

_NOT_IN_NAMES = re.compile(r"\W+", re.ASCII)


def quoted(*path: str) -> str:
    """A column or its path, quoted for Spark SQL."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in path)


def plan_name(text: str, otherwise: str, taken: Container[str]) -> str:
    """A text as a name that plans can have, or ``otherwise`` if no letter of it remains; with a number if it is taken.

    >>> plan_name("upper(s.city)", "key", {"upper_s_city"})
    'upper_s_city_2'
    """
    base = _NOT_IN_NAMES.sub("_", text).strip("_") or otherwise
    return next(name for name in chain([base], (f"{base}_{number}" for number in count(2))) if name not in taken)
