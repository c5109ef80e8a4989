"""What cannot be read: counted, and kept in a file of the task, so that a batch full of it takes no memory."""

from __future__ import annotations

import json
import pickle
import tracemalloc
from pathlib import Path

import pytest

from cqels_opt.runtime.dead_letters import DeadLetters
from cqels_opt.runtime.rejected_elements import MOST_HELD, SAMPLE, Rejected, RejectSpool

MANY = 30_000


def filled(folder: Path, count: int) -> RejectSpool:
    spool = RejectSpool(str(folder), "rejects.jsonl")
    spool.extend(Rejected("urn:S", 0, (line * 7) % count, f"is not JSON: é {line}") for line in range(count))
    return spool


def test_few_are_in_memory_alone(tmp_path: Path) -> None:
    spool = filled(tmp_path, MOST_HELD)
    assert (len(spool), spool.spooled, list(tmp_path.iterdir())) == (MOST_HELD, False, [])
    assert [r.reason for r in spool][-1] == f"is not JSON: é {MOST_HELD - 1}"


def test_many_are_all_there_in_their_order(tmp_path: Path) -> None:
    spool = pickle.loads(pickle.dumps(filled(tmp_path, 1000)))
    assert [r.reason.rsplit(" ", 1)[1] for r in spool] == [str(line) for line in range(1000)]
    assert [r.reason.rsplit(" ", 1)[1] for r in spool.sample] == [str(line) for line in range(SAMPLE)]
    assert (spool.counts, spool.least.line) == ({"urn:S": 1000}, 0)


@pytest.mark.long
def test_bytes_do_not_grow_with_how_many_there_are(tmp_path: Path) -> None:
    """Neither those of the report that travels to the driver nor the driver's memory while they go to the user's file."""
    spool = filled(tmp_path, MANY)
    assert len(pickle.dumps(spool)) < 40_000
    kept = tmp_path / "kept.jsonl"
    tracemalloc.start()
    lengths = DeadLetters(kept, (), {}).put([spool])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000 < kept.stat().st_size == sum(lengths.values())
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [line["reason"] for line in lines] == [f"is not JSON: é {n}" for n in range(MANY)]


def test_what_a_failed_attempt_left_is_written_over(tmp_path: Path) -> None:
    filled(tmp_path, 1000)
    assert len(list(filled(tmp_path, 600))) == 600
