"""Commit records that are missing, changed, or of another checkpoint: a run that would go on without them is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cqels_opt.errors import CheckpointError
from cqels_opt.state.commit_log import KEEP, Commit, CommitLog
from cqels_opt.state.run_identity import NAME, Identity

from .test_damaged_checkpoint import Cut, started

BATCHES = 6  # of a run that was killed


def records(state: Path) -> list[Path]:
    return sorted((state / "commits").glob("[0-9]*.json"))


def noted(state: Path, offsets: int, commits: int) -> None:
    """The log of a Spark job that has planned and committed batches up to these."""
    for part, last in (("offsets", offsets), ("commits", commits)):
        (state / "spark" / part).mkdir(parents=True)
        for number in range(last + 1):
            (state / "spark" / part / str(number)).write_text("v1\n{}")


LOST: dict[str, Callable[[Path], object]] = {
    "the newest": lambda state: records(state)[-1].unlink(),
    "all": lambda state: [path.unlink() for path in records(state)],
    "all, and the identity": lambda state: [path.unlink() for path in (*records(state), state / NAME)],
}


@pytest.mark.parametrize("lost", LOST)
def test_a_batch_that_does_not_follow_on_the_records(lost: str, tmp_path: Path) -> None:
    query, chunks, state = started(tmp_path)
    LOST[lost](state)
    driver = query.driver(Cut("10"), state)
    with pytest.raises(CheckpointError, match=f"{state}: the job continues at batch {BATCHES}, but .* commit record"):
        driver.batch(BATCHES, chunks[BATCHES])
    assert driver.sink.lines == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("lost", LOST)
def test_a_job_in_the_same_folder_that_has_committed_more(lost: str, tmp_path: Path) -> None:
    """It is refused before anything is changed: no file of answers is cut back."""
    query, _, state = started(tmp_path)
    noted(state, BATCHES - 1, BATCHES - 1)
    query.driver(Cut("10"), state)
    LOST[lost](state)
    with pytest.raises(CheckpointError, match=f"has committed batch {BATCHES - 1}, but .* commit record"):
        query.driver(Cut("10"), state)


def test_a_record_that_the_job_has_not_noted_yet(tmp_path: Path) -> None:
    """As after a kill between the two: the batch comes again and has the same answers."""
    query, chunks, state = started(tmp_path)
    noted(state, BATCHES - 1, BATCHES - 2)
    driver = query.driver(Cut("10"), state)
    before = len(driver.sink.lines)  # type: ignore[attr-defined]
    driver.log.check_job()
    driver.batch(BATCHES - 1, chunks[BATCHES - 1])
    assert [int(path.stem) for path in records(state)][-1] == BATCHES - 1
    assert before == 0


def test_a_job_whose_log_is_gone(tmp_path: Path) -> None:
    query, _, state = started(tmp_path)
    with pytest.raises(CheckpointError, match="records up to batch 5, but the job's log in spark/ is missing"):
        query.driver(Cut("10"), state).log.check_job()


def test_a_record_missing_between_others(tmp_path: Path) -> None:
    query, _, state = started(tmp_path)
    assert len(records(state)) == KEEP
    records(state)[1].unlink()
    with pytest.raises(CheckpointError, match=r"damaged \(the record before it is missing, or another one\)"):
        query.driver(Cut("10"), state)


def test_records_of_another_checkpoint(tmp_path: Path) -> None:
    query, _, state = started(tmp_path)
    shutil.copytree(state, tmp_path / "other")
    (tmp_path / "other" / NAME).unlink()
    shutil.rmtree(tmp_path / "other" / "commits")
    query.driver(Cut("10"), tmp_path / "other")
    shutil.copy(tmp_path / "other" / NAME, state / NAME)
    with pytest.raises(CheckpointError, match="it is of another run"):
        query.driver(Cut("10"), state)


def test_a_gap_that_the_user_accepts(tmp_path: Path) -> None:
    query, chunks, state = started(tmp_path)
    records(state)[-1].unlink()
    driver = query.driver(Cut("10"), state)
    driver.options = replace(driver.options, allow_gap=False)
    with pytest.raises(CheckpointError, match="allow_gap=True continues without the batches between"):
        driver.batch(BATCHES, chunks[BATCHES])
    driver.options = replace(driver.options, allow_gap=True)
    driver.batch(BATCHES, chunks[BATCHES])
    query.driver(Cut("10"), state).batch(BATCHES + 1, chunks[BATCHES + 1])  # what follows needs no leave


def test_a_job_that_begins_anew_over_its_state(tmp_path: Path) -> None:
    """Records of the batches that are done again go: the state after batch 0 is not that after batch 5."""
    query, chunks, state = started(tmp_path)
    driver = query.driver(Cut("10"), state)
    for number in range(3):
        driver.batch(number, chunks[number])
        assert [int(path.stem) for path in records(state)] == list(range(number + 1))
    assert query.driver(Cut("10"), state).state.batch == 2


def written(folder: Path) -> CommitLog:
    log = CommitLog(folder)
    log.claim(Identity(query={"q": "SELECT"}))
    for number in range(2):
        log.write(Commit(number, frontier={"greatest": 1.5}, totals={"batches": number + 1}))
    return log


@pytest.mark.parametrize("name", [NAME, "commits/000000000000.json", "commits/000000000001.json"])
def test_any_flipped_bit_is_found(name: str, tmp_path: Path) -> None:
    written(tmp_path)
    path = tmp_path / name
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        with pytest.raises(CheckpointError, match="damaged"):
            CommitLog(tmp_path).claim(Identity(query={"q": "SELECT"}))
    path.write_bytes(content)
    CommitLog(tmp_path).claim(Identity(query={"q": "SELECT"}))


def test_a_checkpoint_from_before_records_had_digests(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / NAME).write_text('{"version": 2, "run": "0", "identity": {}}')
    with pytest.raises(CheckpointError, match="the checkpoint is of version 2, this is 4"):
        CommitLog(tmp_path).claim(Identity(query={"q": "SELECT"}))


def test_a_query_of_another_name(tmp_path: Path) -> None:
    """The name of a query is that of its file: a copy of the file is another query, and the message says which name is wanted."""
    CommitLog(tmp_path).claim(Identity(query={"q": "SELECT"}))
    with pytest.raises(
        CheckpointError, match=r"its query is named q, not copy \(the name of a query is that of its file, in Python its id\)"
    ):
        CommitLog(tmp_path).claim(Identity(query={"copy": "SELECT"}))
    with pytest.raises(CheckpointError, match="its query is named q, not other, q "):
        CommitLog(tmp_path).claim(Identity(query={"q": "SELECT", "other": "ASK"}), True)
