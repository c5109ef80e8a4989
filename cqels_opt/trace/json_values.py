"""Typed reading of JSON: each function takes a value as :mod:`json` gives it, and raises ValueError where it is of another type."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
Json = Mapping[str, Any]


def get(fields: Json, key: str, read: Callable[[object], T]) -> T:
    """The value of a key that must be there; what is wrong with it is said with the key's name."""
    if key not in fields:
        raise ValueError(f"the key {key!r} is absent")
    try:
        return read(fields[key])
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


def no_number(text: str) -> object:
    """For ``parse_constant``: Python would write and read NaN and Infinity, which JSON does not have."""
    raise ValueError(f"{text} is no JSON number")


def finite(number: float | None) -> float | None:
    """JSON has neither infinity nor NaN: both are "not known"."""
    return number if number is not None and math.isfinite(number) else None


def an_object(value: object) -> Json:
    """An object."""
    if not isinstance(value, dict):
        raise ValueError(f"an object is expected, not {json.dumps(value)[:40]}")
    return value


def text(value: object) -> str:
    """A string."""
    if not isinstance(value, str):
        raise ValueError(f"text is expected, not {json.dumps(value)[:40]}")
    return value


def flag(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"true or false is expected, not {json.dumps(value)[:40]}")
    return value


def whole(value: object) -> int:
    """A whole number of at most 64 bits."""
    if not isinstance(value, int) or isinstance(value, bool) or not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"a whole number is expected, not {json.dumps(value)[:40]}")
    return value


def number(value: object) -> float:
    """A number that a float can hold: ``1e999`` is none."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"a number is expected, not {json.dumps(value)[:40]}")
    return float(value)


def time_range(value: object) -> tuple[int, int]:
    """Two times."""
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"two times are expected, not {json.dumps(value)[:40]}")
    return whole(value[0]), whole(value[1])


def rows(value: object) -> dict[str, int]:
    """Names with whole numbers."""
    named = an_object(value)
    return {name: get(named, name, whole) for name in named}


def maybe(read: Callable[[object], T]) -> Callable[[object], T | None]:
    """Null, or what ``read`` reads."""
    return lambda value: None if value is None else read(value)


def list_of(read: Callable[[object], T]) -> Callable[[object], tuple[T, ...]]:
    """A list of what ``read`` reads."""

    def read_all(value: object) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise ValueError(f"a list is expected, not {json.dumps(value)[:40]}")
        return tuple(read(entry) for entry in value)

    return read_all
