"""The command line in its own process group, which can be killed as a whole with Java and Python workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

LONGEST = 300.0
"""Seconds after which a process that has not ended is a failure."""


@dataclass(frozen=True)
class Finished:
    """A process that has ended."""

    code: int
    out: str
    err: str


class Command:
    """``python -m cqels_opt.cli.main WORDS`` in the background."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - they live as long as this; a pipe that nobody reads fills up
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cqels_opt.cli.main", *words],
            stdout=self._out,
            stderr=self._err,
            start_new_session=True,
            env={**os.environ, "PYTHONFAULTHANDLER": "1", **(environment or {})},
        )

    def until(self, reached: Callable[[], bool]) -> None:
        """Waits until something has happened, before the process ends."""
        latest = time.monotonic() + LONGEST
        while not reached():
            if self.process.poll() is not None:
                raise AssertionError(f"the process has ended with {self.process.returncode}: {self.err()}")
            if time.monotonic() > latest:
                raise AssertionError(f"nothing happened: {self._stacks()}")
            time.sleep(0.002)

    def kill(self) -> None:
        """kill -9 of every process of the group."""
        self._signal(signal.SIGKILL)
        self._end()

    def interrupt(self) -> None:
        """Ctrl-C, which a terminal sends to the whole group."""
        self._signal(signal.SIGINT)

    def terminate(self, everything: bool = True) -> None:
        """SIGTERM: a service manager sends it to all processes of a service, a container runtime to the first one."""
        if everything:
            self._signal(signal.SIGTERM)
        else:
            self.process.terminate()

    def java(self) -> int:
        """The process of the JVM."""
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended
                name, _, rest = path.read_text().partition("(")[2].rpartition(")")
                if name == "java" and rest.split()[2] == str(self.process.pid):  # of the same process group
                    return int(path.parent.name)
        raise AssertionError("there is no JVM")

    def _stacks(self) -> str:
        """What the processes of the group have written, and where their threads are; they are killed."""
        with suppress(AssertionError):
            os.kill(self.java(), signal.SIGQUIT)  # the JVM prints its threads
        time.sleep(2)
        self._signal(signal.SIGABRT)  # Python prints its threads (PYTHONFAULTHANDLER) and ends
        self._end()
        return self.out() + self.err()

    def out(self) -> str:
        """What the process has written so far to its standard output."""
        return _written(self._out)

    def err(self) -> str:
        """What it has written so far to its standard error."""
        return _written(self._err)

    def _end(self) -> int:
        """Waits until all processes of the group have ended."""
        code, latest = self.process.wait(LONGEST), time.monotonic() + LONGEST
        while any(processes(self.process.pid)):
            if time.monotonic() > latest:
                raise subprocess.TimeoutExpired(self.process.args, LONGEST)
            time.sleep(0.01)
        return code

    def _signal(self, number: signal.Signals) -> None:
        os.killpg(self.process.pid, number)

    def finish(self) -> Finished:
        """Waits for the end."""
        try:
            code = self._end()
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        return Finished(code, self.out(), self.err())


def _written(file: IO[bytes]) -> str:
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")


def call(words: Sequence[str], environment: Mapping[str, str] | None = None) -> Finished:
    """Runs a command to its end."""
    return Command(words, environment).finish()


def lines(path: Path) -> int:
    """The complete lines of a file."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def processes(leader: int) -> Iterator[tuple[int, str]]:
    """The processes of a session that live, and what each is: ``driver``, ``jvm`` or ``worker``."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if fields[0] == "Z" or int(fields[3]) != leader:
                continue
            words = (entry / "cmdline").read_bytes().split(b"\0")
            number = int(entry.name)
            is_jvm = words[0].endswith(b"java")
            yield number, "driver" if number == leader else "jvm" if is_jvm else "worker"
