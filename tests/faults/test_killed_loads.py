"""``kill -9`` of a whole ``load`` or ``load --update`` at a random moment, round after round.

``CQELS_OPT_KILLS=200`` kills twenty of each. A kill at each single change of a file is tested in ``tests/lod``.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from killed_process import triples
from spark.command import Command, call

ROUNDS = max(2, int(os.environ.get("CQELS_OPT_KILLS", "4")) // 10)
OLD, NEW = 20_000, 30_000


def write(path: Path, numbers: Iterable[int]) -> str:
    """One triple per number, as N-Triples."""
    path.write_text("".join(f'<http://ex.org/{n}> <http://ex.org/p{n % 7}> "{n}" .\n' for n in numbers))
    return str(path)


def kill_after(words: list[str], seconds: float) -> bool:
    """Kills all processes of a command after some seconds; False where it has ended before."""
    command = Command(words)
    time.sleep(seconds)  # a random moment: nothing is waited for
    ended = command.process.poll() is not None
    if ended:
        command.finish()
    else:
        command.kill()
    return not ended


@pytest.mark.long
def test_a_killed_load_leaves_the_old_store_or_the_new_one(tmp_path: Path) -> None:
    old, new = write(tmp_path / "old.nt", range(OLD)), write(tmp_path / "new.nt", range(NEW))
    rng = random.Random(21)
    began = time.monotonic()
    assert call(["load", "--store", str(tmp_path / "undisturbed"), old]).code == 0
    longest = time.monotonic() - began
    outcomes: dict[int | None, int] = {}
    for number in range(ROUNDS):
        target = tmp_path / str(number)
        before = None
        if number % 2:
            (target).mkdir()
            assert call(["load", "--store", str(target), old]).code == 0
            before = OLD
        kill_after(["load", "--store", str(target), new], rng.uniform(0.3, 1.0) * longest)
        found = triples(target)
        assert found in (before, NEW)
        outcomes[found] = outcomes.get(found, 0) + 1
        finished = call(["load", "--store", str(target), new])
        assert finished.code == 0, finished.err
        assert triples(target) == NEW
        assert sorted(path.name[:5] for path in target.iterdir() if path.suffix != ".lock") == ["data-", "store"]
    print("triples after a kill:", outcomes)


@pytest.mark.long
def test_a_killed_update_leaves_a_whole_version(tmp_path: Path) -> None:
    target = tmp_path / "store"
    assert call(["load", "--store", str(target), write(tmp_path / "old.nt", range(OLD))]).code == 0
    rng = random.Random(22)
    began = time.monotonic()
    add, remove = write(tmp_path / "add.nt", range(OLD, OLD + 10)), write(tmp_path / "remove.nt", range(10))
    words = ["load", "--update", str(target), "--add", add, "--remove", remove]
    assert call(words).code == 0
    longest = time.monotonic() - began
    held = set(range(10, OLD + 10))
    killed = 0
    for number in range(1, ROUNDS + 1):
        more, less = range(OLD + 10 * number, OLD + 10 * number + 15), range(10 * number, 10 * number + 10)
        words[4], words[6] = write(tmp_path / "add.nt", more), write(tmp_path / "remove.nt", less)
        after = held - set(less) | set(more)
        killed += kill_after(words, rng.random() * longest)
        assert triples(target) in (len(held), len(after))
        finished = call(words)
        assert finished.code == 0, finished.err
        assert triples(target) == len(after)
        held = after
    print("updates killed:", killed, "of", ROUNDS)
