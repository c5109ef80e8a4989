"""Typed reading of JSON: each function takes a value of :mod:`json` and raises ValueError if it has another type."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
Json = Mapping[str, Any]


def get(fields: Json, key: str, read: Callable[[object], T]) -> T:
    """The value of a required key; errors name the key."""
    if key not in fields:
        raise ValueError(f"the key {key!r} is absent")
    try:
        return read(fields[key])
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


def no_number(text: str) -> object:
    """For ``parse_constant``: rejects NaN and Infinity, which Python would read although JSON does not have them."""
    raise ValueError(f"{text} is no JSON number")


def finite(number: float | None) -> float | None:
    """None for infinity and NaN, which JSON does not have."""
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
    """An integer of at most 64 bits."""
    if not isinstance(value, int) or isinstance(value, bool) or not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"a whole number is expected, not {json.dumps(value)[:40]}")
    return value


def number(value: object) -> float:
    """A number in the range of a float; rejects ``1e999``."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"a number is expected, not {json.dumps(value)[:40]}")
    return float(value)


def time_range(value: object) -> tuple[int, int]:
    """Two times."""
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"two times are expected, not {json.dumps(value)[:40]}")
    return whole(value[0]), whole(value[1])


def rows(value: object) -> dict[str, int]:
    """A mapping from names to integers."""
    named = an_object(value)
    return {name: get(named, name, whole) for name in named}


def maybe(read: Callable[[object], T]) -> Callable[[object], T | None]:
    """A reader for null or a value that ``read`` accepts."""
    return lambda value: None if value is None else read(value)


def list_of(read: Callable[[object], T]) -> Callable[[object], tuple[T, ...]]:
    """A reader for a list of values that ``read`` accepts."""

    def read_all(value: object) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise ValueError(f"a list is expected, not {json.dumps(value)[:40]}")
        return tuple(read(entry) for entry in value)

    return read_all
