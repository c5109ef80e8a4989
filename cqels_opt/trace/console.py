"""A console on standard output."""

from __future__ import annotations

from rich.console import Console


class OutputConsole(Console):
    """A console whose reader may leave: a BrokenPipeError, as of ``print``, where a console of rich exits the process with code 1."""

    def on_broken_pipe(self) -> None:
        """Called by rich if nobody reads the output any more."""
        raise BrokenPipeError
