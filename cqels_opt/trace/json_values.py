"""Typed reading of JSON: each function takes a value of :mod:`json` and raises ValueError if it has another type."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from functools import cache
from types import UnionType
from typing import Any, Final, Self, TypeVar, cast, get_args, get_origin, get_type_hints

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
    """A string of characters. JSON can also write halves of surrogate pairs, which no file and no terminal takes."""
    if not isinstance(value, str):
        raise ValueError(f"text is expected, not {json.dumps(value)[:40]}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{json.dumps(value)[:40]} has half of a surrogate pair, which is no character") from error
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
    return {text(name): get(named, name, whole) for name in named}


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


OPTIONAL: Final = {"optional": True}
"""``metadata`` of a field whose key may be absent; it then has its default."""
OMITTED: Final = {"optional": True, "omitted": True}
"""``metadata`` of an optional field whose key is not written if the field has its default."""


class JsonRecord:
    """A dataclass that is written as a JSON object: one key per field, read by the field's type. The key of a field ``now`` is ``is``."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """The JSON object."""
        given = ((key, getattr(self, field.name), field) for field, key, _ in self._keys())
        return {key: _written(v) for key, v, field in given if "omitted" not in field.metadata or v != field.default}

    @classmethod
    def from_json(cls, value: object) -> Self:
        """The inverse of :meth:`to_json`; raises ValueError with the name of a key that is absent or of another type."""
        given = an_object(value)
        return cls(
            **{
                field.name: get(given, key, read)
                for field, key, read in cls._keys()
                if key in given or "optional" not in field.metadata
            }
        )

    @classmethod
    @cache
    def _keys(cls) -> list[tuple[Field[Any], str, Callable[[object], Any]]]:
        """The fields, with their keys and readers."""
        types, known = get_type_hints(cls), fields(cast("Any", cls))
        return [(field, "is" if field.name == "now" else field.name, _reader(types[field.name])) for field in known]


_READERS: dict[Any, Callable[[object], Any]] = {
    str: text,
    bool: flag,
    int: whole,
    float: number,
    tuple[int, int]: time_range,
    Mapping[str, int]: rows,
}


def _reader(kind: Any) -> Callable[[object], Any]:
    """The reader of a field's type."""
    if kind in _READERS:
        return _READERS[kind]
    if isinstance(kind, type) and issubclass(kind, JsonRecord):
        return kind.from_json
    inner = _reader(get_args(kind)[0])
    return maybe(inner) if get_origin(kind) is UnionType else list_of(inner)


def _written(value: Any) -> Any:
    if isinstance(value, JsonRecord):
        return value.to_json()
    if isinstance(value, tuple):
        return [_written(entry) for entry in value]
    if isinstance(value, Mapping):
        return dict(value)
    return finite(value) if isinstance(value, float) else value
