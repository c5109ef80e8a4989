"""A cache that threads share: cachetools leaves locking to its users."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import RLock
from typing import Any, TypeVar

from cachetools import LRUCache

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SharedCache(LRUCache[K, V]):
    """An LRU cache whose operations are atomic. Threads that ask for the same absent key may each compute its value."""

    def __init__(self, maxsize: float, getsizeof: Callable[[V], float] | None = None) -> None:
        super().__init__(maxsize, getsizeof)
        self._lock = RLock()

    def __getitem__(self, key: K, *more: Any) -> V:
        with self._lock:
            return super().__getitem__(key, *more)

    def __setitem__(self, key: K, value: V, *more: Any) -> None:
        with self._lock:
            super().__setitem__(key, value, *more)

    def __delitem__(self, key: K, *more: Any) -> None:
        with self._lock:
            super().__delitem__(key, *more)

    def get(self, key: K, default: Any = None) -> Any:
        """The value of a key, or ``default``."""
        with self._lock:
            return super().get(key, default)

    def pop(self, key: K, *default: Any) -> Any:
        """Removes a key and returns its value, or ``default``."""
        with self._lock:
            return super().pop(key, *default)


def cached(cache: SharedCache[K, V], key: K, make: Callable[[], V]) -> V:
    """The value of a key; computed and stored if the cache does not have it."""
    try:
        return cache[key]
    except KeyError:
        value = cache[key] = make()
        return value
