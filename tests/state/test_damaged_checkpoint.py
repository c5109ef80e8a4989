"""Files of a checkpoint that are cut off, empty or gone: one sentence that names the file, whatever needs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from local_runs import Cut, Registered, World, register

from cqels_opt.errors import CheckpointError
from cqels_opt.runtime import driver, ingest
from cqels_opt.state import window_state
from cqels_opt.state.slot_indexes import INDEX
from cqels_opt.storage import checksum
from cqels_opt.storage.compaction_policy import CompactionPolicy
from cqels_opt.trace.writer import TraceFile
from cqels_opt.verify import Element

QUERY = """PREFIX : <http://ex.org/>
SELECT ?a ?b FROM NAMED :S [RANGE 1 s] AS ?u FROM NAMED :S [TRIPLES 3] AS ?z
WHERE { GRAPH ?u { ?a :at ?x } GRAPH ?z { ?b :at ?x } }"""

EX = "http://ex.org/"
CUT = Cut("10")
SPOIL: dict[str, Callable[[Path], object]] = {
    "half of it": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "all but its end": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "empty": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
}


def started(tmp_path: Path, text: str = QUERY, how: Cut = CUT) -> tuple[Registered, list[pa.Table], Path]:
    """A query that has run some batches over a folder."""
    elements = [Element(1000 + 40 * i, ((f"<{EX}p{i}>", f"<{EX}at>", f"<{EX}x{i % 3}>"),)) for i in range(120)]
    query = register(text, World({EX + "S": [elements]}), tmp_path / "q")
    chunks, state = query.chunks(how), tmp_path / "state"
    run = query.driver(how, state)
    for number in range(6):
        run.batch(number, chunks[number])
    return query, chunks, state


@pytest.mark.parametrize("how", SPOIL)
@pytest.mark.parametrize("kind", ["slot", INDEX, "elements", "terms", "times", "result"])
def test_a_file_of_the_state(kind: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (driver, ingest) if kind == INDEX else ():
        monkeypatch.setattr(module, "INDEXED_FROM", 1)
    text, cut = QUERY, CUT
    if kind == INDEX:  # few merges, so that some are left
        text, cut = QUERY.replace("TRIPLES 3", "RANGE 2 s"), Cut("10", tiers=CompactionPolicy())
    query, chunks, state = started(tmp_path, text, cut)
    files = [state / f.path for f in query.driver(cut, state).state.files if f.kind == kind]
    assert files
    for path in files:
        SPOIL[how](path)
    window_state._CONTENTS.clear()

    def go_on() -> None:
        run = query.driver(cut, state)
        for number in range(6, len(chunks)):
            run.batch(number, chunks[number])

    with pytest.raises(CheckpointError, match=r"the checkpoint is damaged \(.*use another folder") as error:
        go_on()
    assert str(error.value).split(":")[0] in {str(path) for path in files}
    assert "\n" not in str(error.value)


def test_output_that_has_become_shorter(tmp_path: Path) -> None:
    """Nothing is appended to it: what is missing would be filled up with zeros."""
    path = tmp_path / "out.jsonl"
    path.write_text("one\ntwo\n")
    with pytest.raises(CheckpointError, match=f"{path}: 2 of the 10 bytes"):
        TraceFile(path).restore(10, "")
    assert path.read_text() == "one\ntwo\n"
    with pytest.raises(CheckpointError, match=f"{path}: its first 4 bytes are not those"):
        TraceFile(path).restore(4, checksum.digest(b"two\n"))
    TraceFile(path).restore(4, checksum.digest(b"one\n"))
    assert path.read_text() == "one\n"
