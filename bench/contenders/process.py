"""An external engine as a contender: a process that reads micro-batches from its standard input and writes answers to its standard output.

A TOML file describes it::

    name = "my-engine"
    about = "one sentence"
    command = ["python3", "engine.py"]      # started in the folder of the file

Every message is one line with one JSON object, in UTF-8. First the engine gets the task and reports when it is ready. For each
micro-batch it then gets the elements and ``end``, and writes its answers and ``done``::

    -> {"query": "SELECT …", "streams": ["http://…"], "static": ["/…/static.nt"], "graphs": {"http://…": "/…/places.nt"}}
    <- {"ready": true}
    -> {"stream": "http://…", "s": "<http://…>", "p": "<…>", "o": "\\"Ann\\"", "t": 1198800000000}      (and "g" where it has one)
    -> {"end": 0, "last": false}
    <- {"time": 1198800000000, "bindings": {"name": {"type": "literal", "value": "Ann"}}}
    <- {"done": 0}

The clock runs from the first element of a micro-batch to its ``done``; answers are parsed after it has stopped. An instant may be
answered in a later batch, up to the ``done`` of the last one. At the end standard input is closed; a process that does not end within
ten seconds is killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from cqels_opt.bench.answers import Answer
from cqels_opt.bench.circumstances import descendants
from cqels_opt.bench.contenders import Contender, Done, StoppedError, Task, elements
from cqels_opt.bench.loading import toml_of
from cqels_opt.bench.measure import final_times
from cqels_opt.errors import InputError, RunError

PATIENCE = 10
"""Seconds that an engine may take to end."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An external engine: its name, its command, and the folder in which it starts."""

    name: str
    command: tuple[str, ...]
    folder: Path


def described(path: Path) -> Contender:
    """The engine of a TOML file; InputError where a key is missing or wrong."""
    found = toml_of(path)
    name, command = found.get("name"), found.get("command")
    if not isinstance(name, str) or not name:
        raise InputError(f'{path}: name: an external engine has one: name = "my-engine"')
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        raise InputError(f'{path}: command: must be a list of words: command = ["python3", "engine.py"]')
    engine = Engine(name, tuple(command), path.resolve().parent)
    return Contender(name, str(found.get("about", "an external engine")), partial(run, engine=engine))


def run(task: Task, folder: Path, engine: Engine) -> Iterator[Done | None]:
    """Start the engine and exchange messages with it."""
    with engine_process(engine.name, engine.command, engine.folder, folder) as talk:
        static, graphs = [str(path) for path in task.static], {iri: str(path) for iri, path in task.graphs.items()}
        asked = {"query": task.text, "streams": task.stream_names, "static": static, "graphs": graphs}
        talk.say(json.dumps(asked) + "\n")
        with talk.at_most(task.limit, RunError(f"the engine {engine.name}: not ready after {task.limit:g} s")):
            reply = talk.parsed(talk.line())
        if "ready" not in reply:
            raise talk.broken(f'{{"ready": true}} is expected, not {json.dumps(reply)[:80]}')
        batches, final = len(task.chunks), -1
        for number, (chunk, next_final) in enumerate(zip(task.chunks, final_times(task))):
            text, lines = _batch(task, chunk, number, number == batches - 1), list[str]()
            yield None
            with talk.at_most(task.limit, StoppedError(number, batches, f"{task.limit:g} s", final)):
                talk.say(text)
                while '"done"' not in (line := talk.line()) or "done" not in talk.parsed(line):
                    lines.append(line)
            final = next_final
            yield Done(_answers(talk, lines))


@contextmanager
def engine_process(name: str, command: Sequence[str], place: Path, folder: Path) -> Iterator[Talk]:
    """A process that is started in ``place`` and ends with the block; its standard error is a file in ``folder``."""
    with (folder / "stderr").open("wb") as errors:
        try:
            process = subprocess.Popen(
                command, cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf-8"
            )
        except OSError as error:
            raise InputError(f"{name}: {' '.join(command)} cannot be started: {error.strerror}") from error
    talk = Talk(name, process, folder / "stderr")
    try:
        yield talk
    finally:
        talk.end()


def _batch(task: Task, chunk: Path, number: int, last: bool) -> str:
    """The messages of a micro-batch."""
    names = task.stream_names
    rows = (
        {"stream": names[row.pop("stream")], **{name: value for name, value in row.items() if value is not None}}
        for row in elements(chunk).to_pylist()
    )
    return "".join(json.dumps(row) + "\n" for row in (*rows, {"end": number, "last": last}))


def _answers(talk: Talk, lines: list[str]) -> Iterator[Answer]:
    for line in lines:
        reply = talk.parsed(line)
        try:
            yield reply["time"], {name: term["value"] for name, term in reply["bindings"].items()}
        except (KeyError, TypeError, AttributeError) as error:
            raise talk.broken(f"no answer: {json.dumps(reply)[:80]}") from error


class Talk:
    """The messages to and from an engine. It may answer while it still gets elements: a separate thread writes."""

    def __init__(self, name: str, process: subprocess.Popen[str], errors: Path) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.name, self.process, self.errors = name, process, errors
        self.stdin: IO[str] = process.stdin
        self.stdout: IO[str] = process.stdout
        self._writing: threading.Thread | None = None

    def say(self, text: str) -> None:
        """Writes messages."""
        self._wait()
        self._writing = threading.Thread(target=self._write, args=(text,), daemon=True)
        self._writing.start()

    def _write(self, text: str) -> None:
        with suppress(BrokenPipeError, ValueError):  # it has ended; reading from it fails and reports that
            self.stdin.write(text)
            self.stdin.flush()

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.join()

    def line(self) -> str:
        """The next line; RunError at the end of the output."""
        if not (line := self.stdout.readline()):
            raise self.broken(f"ended (exit code {self.process.wait(PATIENCE)})")
        return line

    def parsed(self, line: str) -> dict[str, Any]:
        """The message of a line; RunError if it is no JSON object."""
        try:
            reply = json.loads(line)
        except ValueError:
            reply = None
        if not isinstance(reply, dict):
            raise self.broken(f"no JSON object: {line.strip()[:80]}")
        return reply

    @contextmanager
    def at_most(self, seconds: float, error: Exception) -> Iterator[None]:
        """Kills the engine after some seconds, which ends the wait for its next line, and raises ``error``."""
        late = threading.Event()

        def kill() -> None:
            late.set()
            self._kill()

        timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), kill)
        timer.daemon = True
        timer.start()
        try:
            yield
        except RunError:
            if not late.is_set():
                raise
        finally:
            timer.cancel()
        if late.is_set():
            raise error

    def _kill(self) -> None:
        """Kills the process and those that it started, which hold its output open as well."""
        with suppress(OSError):  # they have ended, or the system has no /proc
            for number in list(descendants(self.process.pid)):
                os.kill(number, signal.SIGKILL)
        self.process.kill()

    def broken(self, what: str) -> RunError:
        """The error for a violation of the protocol, with the last lines of the engine's standard error."""
        lines = self.errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return RunError(f"the engine {self.name}: {what}" + (f"; it says: {lines[-1][:200]}" if lines else ""))

    def end(self) -> None:
        """Close its input and wait; kill it if it does not end."""
        if self.process.poll() is None and self._writing is not None:
            self._writing.join(1)  # the answer may come before the thread ends
            if self._writing.is_alive():
                self.process.kill()  # it does not read its input
        self._wait()
        with suppress(BrokenPipeError):
            self.stdin.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.stdout.close()
