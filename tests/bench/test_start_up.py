from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cqels_opt.bench.start_up import Start, commands, first_answer, show
from cqels_opt.errors import RunError


def test_the_clock_stops_at_the_first_line() -> None:
    """The child of the command has taken a third of a second of its processor; what follows the line does not count."""
    program = (
        "import subprocess, sys, time\n"
        "busy = 'import time\\nwhile time.process_time() < 0.3: pass\\nprint()\\ninput()'\n"
        "child = subprocess.Popen([sys.executable, '-c', busy], stdin=-1, stdout=-1)\n"
        "child.stdout.readline()\nprint('answer', flush=True)\n"
        "while time.process_time() < 2: pass\nchild.communicate(b'end\\n')\n"
    )
    found = first_answer("x", [sys.executable, "-c", program], {"PATH": "/usr/bin"})
    assert found.workers >= 0.25  # the kernel counts ticks
    assert found.driver < 2
    assert found.jvm == 0


@pytest.mark.parametrize("program", ["pass", "print(1); raise SystemExit(1)"])
def test_a_command_without_an_answer_is_an_error(program: str) -> None:
    with pytest.raises(RunError, match="x: no answer"):
        first_answer("x", [sys.executable, "-c", program], {})


def test_long_messages_do_not_block_a_command_and_the_last_one_is_the_reason() -> None:
    program = "import sys; sys.stderr.write('x' * 1_000_000 + '\\nno memory\\n'); print(1, flush=True); sys.exit({code})"
    assert first_answer("x", [sys.executable, "-c", program.format(code=0)], {}).seconds > 0
    with pytest.raises(RunError, match=r"x: no answer \(exit code 3\): no memory"):
        first_answer("x", [sys.executable, "-c", program.format(code=3)], {})


def test_the_engine_answers_in_process(tmp_path: Path) -> None:
    command, environment = commands(tmp_path)["in process"]
    assert first_answer("in process", command, {**os.environ, **environment}).jvm == 0


def test_a_row_per_contender(capsys: pytest.CaptureFixture[str]) -> None:
    starts = [Start("run", seconds, 1.0, 4.0, 0.5, 2.0) for seconds in (5.0, 6.0, 9.0)]
    show({"elements": 1000, "starts": [{name: getattr(start, name) for name in Start.__slots__} for start in starts]})
    assert "| run  " in (out := capsys.readouterr().out) and " 6.0 | " in out and " 5.5 | " in out
