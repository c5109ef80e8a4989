"""Answers as messages: in order of time, the same when tasks have written them otherwise, and read again as the elements that they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.errors import CheckpointError
from cqels_opt.rdf.payloads import decode, payload_of
from cqels_opt.runtime.answer_messages import AnswerLines, answer_messages
from cqels_opt.storage import checksum

LINES = st.lists(st.tuples(st.integers(0, 4), st.sampled_from("ab"), st.integers(0, 2)), max_size=12)


def write(folder: Path, name: str, query: str, lines: list[tuple[int, bytes]]) -> AnswerLines:
    lines = sorted(lines, key=lambda found: found[0])
    (folder / f"{name}.jsonl").write_bytes(b"".join(line for _, line in lines))
    path = checksum.name_after_content(folder / f"{name}.jsonl")
    sizes: dict[int, int] = {}
    for time, line in lines:
        sizes[time] = sizes.get(time, 0) + len(line)
    return AnswerLines(query, str(path), tuple(sizes.items()))


def line(time: int, value: int) -> bytes:
    return json.dumps({"time": time, "op": "+", "bindings": {"v": value}}).encode() + b"\n"


@given(LINES, st.integers(1, 3), st.integers(1, 3))
def test_whatever_tasks_wrote_them(
    tmp_path_factory: pytest.TempPathFactory, found: list[tuple[int, str, int]], a: int, b: int
) -> None:
    made = []
    for parts in (a, b):
        folder = tmp_path_factory.mktemp("answers")
        files = []
        for query in "ab":
            for part in range(parts):
                mine = [(t, line(t, v)) for i, (t, q, v) in enumerate(found) if q == query and i % parts == part]
                files.append(write(folder, f"{query}{part}", query, mine))
        made.append(list(answer_messages(files, "answers")))
    assert made[0] == made[1]
    assert [(m.time, m.query) for m in made[0]] == sorted((t, q) for t, q, _ in found)
    assert sorted((m.query, m.value + b"\n") for m in made[0]) == sorted((q, line(t, v)) for t, q, v in found)
    for query in "ab":
        assert [m.index for m in made[0] if m.query == query] == list(range(sum(q == query for _, q, _ in found)))


@pytest.mark.parametrize("kind", ["json", "nq"])
def test_graphs_are_read_again_as_the_elements_that_they_are(tmp_path: Path, kind: str) -> None:
    graphs = {5000: [["<a:s>", "<a:p>", '"x\\n"@en']], 6500: [["<a:s>", "<a:p>", "<a:o>"], ["<a:t>", "<a:p>", "_:b"]]}
    lines = [(t, json.dumps({"time": t, "op": "+", "triples": triples}).encode() + b"\n") for t, triples in graphs.items()]
    file = write(tmp_path, "graphs", "q 1", lines)
    messages = list(answer_messages([file], kind))  # type: ignore[arg-type]
    assert [(m.time, m.op, m.index) for m in messages] == [(5000, "+", 0), (6500, "+", 1)]
    found = decode(payload_of(kind), [m.value for m in messages], [None] * 2, ["m0", "m1"])
    assert not found.refused
    assert list(zip(found.message.tolist(), found.element.tolist(), found.t.tolist())) == [
        (0, 0, 5000),
        (1, 0, 6500),
        (1, 0, 6500),
    ]
    rows = list(zip(found.s.to_pylist(), found.p.to_pylist(), found.o.to_pylist()))
    assert rows[:2] == [("<a:s>", "<a:p>", '"x\\n"@en'), ("<a:s>", "<a:p>", "<a:o>")]


def test_a_file_that_is_cut_off_is_said(tmp_path: Path) -> None:
    file = write(tmp_path, "a", "q", [(1, line(1, 1))])
    Path(file.path).write_bytes(b"{")
    with pytest.raises(CheckpointError, match="does not have its checksum"):
        list(answer_messages([file], "answers"))
