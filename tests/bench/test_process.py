"""External engines: the protocol in both directions, and the reports about engines that violate it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from bench_tasks import task

from cqels_opt.bench.contenders import built_in
from cqels_opt.bench.contenders.process import described
from cqels_opt.bench.measure import check, in_turns
from cqels_opt.errors import InputError, RunError
from cqels_opt.verify import Element
from cqels_opt.windows.batch_size import BatchSize

TEXT = "PREFIX : <http://x/> SELECT ?a FROM NAMED <http://s> [NOW] AS ?n { GRAPH ?n { ?a :at :l } }"
ELEMENTS = [Element(i, ((f"<http://x/p{i}>", "<http://x/at>", f"<http://x/{'lm'[i % 2]}>"),)) for i in range(5000)]
READY = "import json, sys\nsys.stdin.readline()\nprint('{\"ready\": true}', flush=True)\n"
EAGER = (
    READY
    + """
for line in sys.stdin:  # answers while it is still being told
    e = json.loads(line)
    if "end" in e:
        print(json.dumps({"done": e["end"]}), flush=True)
    elif e["o"] == "<http://x/l>":
        print(json.dumps({"time": e["t"], "bindings": {"a": {"type": "uri", "value": e["s"][1:-1]}}}), flush=True)
"""
)


def _engine(folder: Path, program: str) -> Path:
    (folder / "engine.py").write_text(program, encoding="utf-8")
    path = folder / "engine.toml"
    path.write_text(f'name = "mine"\ncommand = ["{sys.executable}", "engine.py"]\n', encoding="utf-8")
    return path


def test_an_engine_may_answer_while_it_is_told(tmp_path: Path) -> None:
    """More than the buffers of both pipes, in both directions."""
    made = task(tmp_path / "task", TEXT, {"http://s": ELEMENTS}, [], BatchSize(count=2500))
    runs = in_turns([built_in()["adaptive"], described(_engine(tmp_path, EAGER))], made, tmp_path / "runs", 60)
    assert [run.why for run in runs] == [None, None]
    check("q", runs)
    assert runs[1].bag.total == 2500


def test_answers_are_parsed_after_the_clock_has_stopped(tmp_path: Path) -> None:
    made = task(tmp_path / "task", TEXT, {"http://s": ELEMENTS[:10]}, [], BatchSize(count=5))
    broken = READY + "for line in sys.stdin:\n  if 'end' in line: print('hello\\n{\"done\": 0}', flush=True)"
    run = described(_engine(tmp_path, broken)).run(made, tmp_path)
    assert next(run) is None
    done = next(run)
    assert done is not None
    with pytest.raises(RunError, match="no JSON object: hello"):
        list(done.answers)
    run.close()  # type: ignore[attr-defined]


def test_an_answer_may_contain_the_word_of_the_protocol(tmp_path: Path) -> None:
    made = task(tmp_path / "task", TEXT, {"http://s": ELEMENTS[:10]}, [], BatchSize(count=5))
    answer = {"time": 1, "bindings": {"a": {"type": "uri", "value": "done"}, "done": {"type": "literal", "value": "x"}}}
    program = (
        READY + f"for line in sys.stdin:\n  if 'end' in line: print(json.dumps({answer})); print('{{\"done\": 0}}', flush=True)"
    )
    done = [done for done in described(_engine(tmp_path, program)).run(made, tmp_path) if done is not None]
    assert [list(one.answers) for one in done] == [[(1, {"a": "done", "done": "x"})]] * 2


HANGING = (
    READY
    + """
import subprocess
for line in sys.stdin:
    if "end" in line and json.loads(line)["end"] == 1:
        subprocess.run([sys.executable, "-c", "import threading; threading.Event().wait()"])  # has the output as well
    elif "end" in line:
        print('{"time": 1, "bindings": {"a": {"type": "uri", "value": "http://x/p"}}}', flush=True)
        print('{"done": 0}', flush=True)
"""
)


def test_an_engine_that_never_ends_a_micro_batch_is_killed(tmp_path: Path) -> None:
    made = replace(task(tmp_path / "task", TEXT, {"http://s": ELEMENTS[:10]}, [], BatchSize(count=5)), limit=2.0)
    (run,) = in_turns([described(_engine(tmp_path, HANGING))], made, tmp_path / "runs", 60)
    assert (run.why, run.upto) == ("stopped within micro-batch 2 of 2: over 2 s", 3)
    assert run.bag.counts == {1: 1}


def test_an_engine_that_is_never_ready_is_killed(tmp_path: Path) -> None:
    made = replace(task(tmp_path / "task", TEXT, {"http://s": ELEMENTS[:10]}, [], BatchSize(count=5)), limit=0.1)
    (run,) = in_turns([described(_engine(tmp_path, "input(); input()"))], made, tmp_path / "runs", 60)
    assert run.why == "failed: RunError: the engine mine: not ready after 0.1 s"


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("raise SystemExit('no licence')", r"the engine mine: ended \(exit code 1\); it says: no licence"),
        ("print('hello', flush=True)", "no JSON object: hello"),
        ("print('{}', flush=True)", r'"ready": true} is expected, not {}'),
        (READY + "for line in sys.stdin:\n  if 'end' in line: print('{\"done\": 0}', flush=True); break", "ended"),
        (
            READY + "for line in sys.stdin:\n  if 'end' in line: print('{\"t\": 3}\\n{\"done\": 0}', flush=True)",
            'no answer: {"t": 3}',
        ),
    ],
)
def test_what_is_said_of_engines_that_break(tmp_path: Path, program: str, why: str) -> None:
    made = task(tmp_path / "task", TEXT, {"http://s": ELEMENTS[:10]}, [], BatchSize(count=5))
    (run,) = in_turns([described(_engine(tmp_path, program))], made, tmp_path / "runs", 60)
    assert run.why is not None
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(run.why)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('command = ["x"]', "name: an external engine has one"),
        ('name = "x"', "command: must be a list of words"),
        ('name = "x"\ncommand = "x y"', "command: must be a list of words"),
        ("name", "engine.toml: Expected"),
    ],
)
def test_descriptions_that_do_not_say_enough(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "engine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        described(path)


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "engine.toml"
    path.write_text('name = "x"\ncommand = ["./no-such-program"]', encoding="utf-8")
    made = task(tmp_path / "task", TEXT, {"http://s": ELEMENTS[:2]}, [], BatchSize(count=5))
    (run,) = in_turns([described(path)], made, tmp_path / "runs", 60)
    assert "./no-such-program cannot be started" in str(run.why)
