"""The errors that users see. Every message names the object, the place and the remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class CqelsOptError(Exception):
    """Any error that this package raises intentionally."""


class InputError(CqelsOptError):
    """The input is wrong: a query, an option, a file. The command line prints one line and exits with code 2."""


class QueryError(InputError):
    """A query cannot be parsed or is not supported; ``line`` and ``column`` count from 1.

    ``str()`` is one line; :meth:`report` adds the line of the query with a caret below the position.
    """

    def __init__(self, message: str, text: str = "", line: int = 0, column: int = 0, file: str = "query") -> None:
        super().__init__(message)
        self.message, self.text, self.line, self.column, self.file = message, text, line, column, file

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: "
        return place + self.message

    def report(self) -> str:
        """The message, then the line of the query with a caret below the position."""
        lines = self.text.split("\n")
        if not 0 < self.line <= len(lines):
            return str(self)
        source = lines[self.line - 1].rstrip("\r").expandtabs(1)
        return f"{self}\n{source}\n{' ' * (self.column - 1)}^"


class DataError(InputError):
    """A line or term of a data file is wrong; the message begins with ``file:line:``, and is always one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(line.strip() for line in message.splitlines()))


class FileError(InputError):
    """A file or folder cannot be read or written: the disk is full or read-only, or the user lacks permission."""


class StoreError(InputError):
    """A static store is absent, damaged or of another version."""


class CheckpointError(InputError):
    """A checkpoint belongs to another query or version, or is damaged."""


class LimitError(CqelsOptError):
    """A query exceeded its limits. It ends; the job that it is part of continues."""


class RunError(CqelsOptError):
    """A run failed after its start. The command line exits with code 3."""


class RunWarning(RuntimeWarning):
    """What the user of a run should know, such as the end of a query at a limit. The command line prints it as one line."""


class EngineWarning(RunWarning):
    """An error that does not affect answers. The trace has the same sentence in its notices."""


_command_line = False
"""Whether the user of this process is at the command line."""


@contextmanager
def for_the_command_line() -> Iterator[None]:
    """Messages name options as the command line writes them."""
    global _command_line
    before, _command_line = _command_line, True
    try:
        yield
    finally:
        _command_line = before


def option(python: str, command_line: str) -> str:
    """An option in a message, as the user of this process writes it. Processes of Spark's executors take Python's words."""
    return command_line if _command_line else python


def check_choice(name: str, value: object, words: Sequence[str]) -> None:
    """InputError for a value that is not among the words of an option."""
    if value not in words:
        raise InputError(f"{name}={value!r}: choose from {', '.join(words)}")


def check_flags(**flags: object) -> None:
    """InputError for a flag that is neither True nor False: each text, also ``"no"``, would count as True."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise InputError(f"{name}={value!r}: True or False is expected")


def first_of(findings: Sequence[str]) -> str:
    """The first finding and the number of further ones, as one sentence."""
    more = len(findings) - 1
    return f"{findings[0]} (and {more} more)" if more else findings[0]


def named(error: BaseException) -> str:
    """The type of an error and the first line of its message."""
    return f"{type(error).__name__}: {first_line(error)}"


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or the name of its type if the message is empty: Spark's have the plan and the trace below."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
