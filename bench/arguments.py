"""Types of argparse for the studies that have a command line."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from math import inf
from typing import TypeVar

T = TypeVar("T", int, float)


def within(read: Callable[[str], T], least: float, most: float, what: str) -> Callable[[str], T]:
    """Reads a number from ``least`` to ``most``; the error for any other text reports ``what`` is expected."""

    def number(text: str) -> T:
        try:
            found = read(text)
        except ValueError:
            found = None
        if found is None or not least <= found <= most:
            raise ArgumentTypeError(f"must be {what}, not {text}")
        return found

    return number


def at_least(least: int) -> Callable[[str], int]:
    """Reads a whole number from ``least``."""
    return within(int, least, inf, f"a whole number, at least {least}")


positive = within(float, 1e-9, 1e9, "a positive number")
"""Reads a number of seconds, or a rate."""
