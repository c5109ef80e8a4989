"""The errors that users meet. Every message names the thing, the place and what to do."""

from __future__ import annotations

from collections.abc import Sequence


class CqelsOptError(Exception):
    """Any error that this package raises on purpose."""


class InputError(CqelsOptError):
    """The input is wrong: a query, an option, a file. The command line ends with exit code 2 and this one line."""


class QueryError(InputError):
    """A query cannot be read or is not supported; ``line`` and ``column`` count from 1.

    ``str()`` is one line; :meth:`report` adds the line of text with a caret under the place.
    """

    def __init__(self, message: str, text: str = "", line: int = 0, column: int = 0, file: str = "query") -> None:
        super().__init__(message)
        self.message, self.text, self.line, self.column, self.file = message, text, line, column, file

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: "
        return place + self.message

    def report(self) -> str:
        """The message, then the line of the query with a caret under the place."""
        lines = self.text.splitlines()
        if not 0 < self.line <= len(lines):
            return str(self)
        source = lines[self.line - 1].expandtabs(1)
        return f"{self}\n{source}\n{' ' * (self.column - 1)}^"


class DataError(InputError):
    """A line or term of a data file is wrong; the message begins with ``file:line:``, and is one line whatever a parser said."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(line.strip() for line in message.splitlines()))


class FileError(InputError):
    """A file or folder cannot be read or written: the disk is full or read-only, or this user has no right to it."""


class StoreError(InputError):
    """A static store is absent, damaged or of another version."""


class CheckpointError(InputError):
    """A checkpoint belongs to another query or version, or is damaged."""


class LimitError(CqelsOptError):
    """A query took more than its limits allow. It is over; the job that it is part of goes on."""


class RunError(CqelsOptError):
    """A run failed after it had begun. The command line ends with exit code 3."""


class EngineWarning(RuntimeWarning):
    """Something went wrong that does no harm to the answers. The trace has the same sentence among its notices."""


def first_of(findings: Sequence[str]) -> str:
    """The first of some findings, and how many more there are: one sentence for all."""
    more = len(findings) - 1
    return f"{findings[0]} (and {more} more)" if more else findings[0]
