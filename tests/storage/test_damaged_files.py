"""A bit, a byte, an end or a place is changed in any file of a store or a checkpoint: it is named, or nothing that is read has changed.

The seeds are a sample; ``CQELS_OPT_CASES=500`` runs so many of each kind.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from local_runs import Cut, Registered, World, register

from cqels_opt.cli.main import main
from cqels_opt.errors import CheckpointError, StoreError
from cqels_opt.lod.build import build_store
from cqels_opt.lod.check import check as check_store
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.store import StaticPattern
from cqels_opt.operators import instances
from cqels_opt.runtime.answer_folder import FolderSink
from cqels_opt.runtime.checkpoint_check import check as check_checkpoint
from cqels_opt.runtime.line_sinks import FileSink
from cqels_opt.state import result_store, time_slices, window_state, worker_cache
from cqels_opt.state.run_identity import NAME
from cqels_opt.storage import checksum, columns, documents
from cqels_opt.trace.writer import TraceFile
from cqels_opt.verify import Element

CASES = int(os.environ.get("CQELS_OPT_CASES", "25"))
EX = "http://ex.org/"


def iri(name: str) -> str:
    return f"<{EX}{name}>"


@pytest.fixture(params=["whole files", "blocks"], autouse=True)
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Files are small, and verified as a whole; or all of them are large."""
    if request.param == "blocks":
        monkeypatch.setattr(checksum, "BLOCK", 256)
        monkeypatch.setattr(checksum, "WHOLE", 300)
    forget()
    return str(request.param)


def forget() -> None:
    """As a new process begins."""
    checksum.VERIFIED.clear()
    kept: list[Any] = [
        worker_cache._STORES,
        worker_cache._RELATIONS,
        worker_cache._PAGES,
        worker_cache._JOIN_SIZES,
        worker_cache._RESULTS,
    ]
    for recent in [*kept, columns._WRITTEN, window_state._CONTENTS, instances._NAMES, result_store._HELD]:
        recent.clear()
    time_slices._MAPPED.clear()


# ------------------------------------------------------------------ damage
def flip_a_bit(rng: random.Random, path: Path, others: list[Path]) -> None:
    whole = bytearray(path.read_bytes())
    whole[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
    path.write_bytes(whole)


def change_a_byte(rng: random.Random, path: Path, others: list[Path]) -> None:
    whole = bytearray(path.read_bytes())
    at = rng.randrange(len(whole))
    whole[at] = (whole[at] + rng.randrange(1, 256)) % 256
    path.write_bytes(whole)


def cut_it_off(rng: random.Random, path: Path, others: list[Path]) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: rng.randrange(len(whole))])


def swap(rng: random.Random, path: Path, others: list[Path]) -> None:
    other = rng.choice([found for found in others if found.suffix == path.suffix and found != path] or others)
    one, two = path.read_bytes(), other.read_bytes()
    path.write_bytes(two)
    other.write_bytes(one)


DAMAGE: tuple[Callable[[random.Random, Path, list[Path]], None], ...] = (flip_a_bit, change_a_byte, cut_it_off, swap)


def damaged(rng: random.Random, files: list[Path]) -> tuple[str, bool]:
    """Damages one of the files (of a kind by lot, then of the kind); how, and whether the bytes of any file have changed."""
    kinds: dict[tuple[str, str], list[Path]] = {}
    for path in files:
        if path.stat().st_size:
            kinds.setdefault((path.parent.name[:4], path.suffix), []).append(path)
    path = rng.choice(rng.choice(sorted(kinds.values())))
    before = {file: file.read_bytes() for file in files}
    how = rng.choice(DAMAGE)
    how(rng, path, [file for file in files if file.stat().st_size])
    forget()
    return f"{how.__name__} {path}", any(file.read_bytes() != window_state for file, window_state in before.items())


def files_of(folder: Path, without: Callable[[Path], bool] = lambda _: False) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not without(path))


def one_sentence(error: Exception) -> None:
    text = str(error)
    assert isinstance(error, StoreError | CheckpointError), error
    assert "\n" not in text and "/" in text, text


# ------------------------------------------------------------------ stores
QUADS = [
    (iri(f"s{i % 23}"), iri(f"p{i % 3}"), iri(f"o{i}") if i % 2 else f'"text {i} é"@en', iri("g") if i % 5 == 0 else None)
    for i in range(120)
] + [(iri("s1"), iri("number"), f'"{i}"^^<http://www.w3.org/2001/XMLSchema#integer>', None) for i in range(5)]


def everything(folder: Path) -> list[Any]:
    """All that can be asked of a store: matches, look-ups, counts and texts."""
    store = open_store(folder)
    found: list[Any] = [store.triples, store.terms, store.named_graphs().tolist(), store.scheme.key]
    for graph, predicate in sorted(store.entries):
        partition = store.partition(graph, predicate)
        found += [np.asarray(partition.columns[v]).tolist() for v in "so"]
        found += [partition.distinct(v) for v in "so"]
        for v in "so":
            index, column = partition.index((v,)), np.asarray(partition.columns[v])
            for key in np.unique(column).tolist():
                found.append([part.tolist() for part in index.lookup(np.array([key]))])
            found.append(index.fan_out)
        found.append(store.decode(np.array([predicate, *np.asarray(partition.columns["o"]).tolist()])))
        rows = store.match(StaticPattern("s", predicate, "o", graph or None))
        found.append([np.asarray(rows.columns[v]).tolist() for v in rows.variables])
    return found


@pytest.fixture
def store(tmp_path: Path) -> Path:
    build_store(tmp_path / "store", QUADS)
    return tmp_path / "store"


def test_a_damaged_store(store: Path, size: str) -> None:
    intact, whole = everything(store), {path: path.read_bytes() for path in files_of(store)}
    outcomes: Counter[str] = Counter()
    for seed in range(CASES):
        what, changed = damaged(random.Random(f"{size} {seed}"), list(whole))
        try:
            answers = everything(store)
        except (StoreError, CheckpointError) as error:
            one_sentence(error)
            outcomes["named"] += 1
        else:
            assert answers == intact, what
            outcomes["right" if changed else "the same file"] += 1
        forget()
        try:
            findings = check_store(store)
        except StoreError as error:
            findings = [str(error)]
        assert findings or not changed or harmless(whole), what
        for path, was in whole.items():
            path.write_bytes(was)
        forget()
    assert outcomes["named"] > CASES / 4
    assert everything(store) == intact


def harmless(whole: dict[Path, bytes]) -> bool:
    """Whether what has changed is white space of a header, or hashes of blocks without which files are verified as a whole."""
    changed = {path: window_state for path, window_state in whole.items() if path.read_bytes() != window_state}
    return all(
        path.suffix == checksum.BLOCKS or (path.suffix == ".json" and json.loads(path.read_bytes()) == json.loads(window_state))
        for path, window_state in changed.items()
    )


def test_store_check_names_each_damaged_file(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "check", str(store)]) == 0
    paths = [path for path in files_of(store) if path.suffix == ".npy"][:3]
    for path in paths:
        flip_a_bit(random.Random(1), path, [])
    forget()
    capsys.readouterr()
    assert main(["store", "check", str(store)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == len(paths) and all(str(path) in line for path, line in zip(paths, said))


# ------------------------------------------------------------------ checkpoints
QUERY = """PREFIX : <http://ex.org/>
SELECT ?a ?k (COUNT(*) AS ?n) FROM NAMED :S [RANGE 1 s] AS ?u FROM NAMED :S [TRIPLES 3] AS ?z
WHERE { GRAPH ?u { ?a :at ?x } GRAPH ?z { ?b :at ?x } ?x :in ?r . ?r :of ?k } GROUP BY ?a ?k"""
HOW = Cut("6")
BEFORE = 7
"""Batches before the damage."""


def started(folder: Path, sink: FileSink | FolderSink) -> tuple[Registered, list[Any], Path]:
    """A query that has run some batches over a checkpoint."""
    elements = [Element(1000 + 60 * i, ((iri(f"p{i}"), iri("at"), iri(f"x{i % 4}")),)) for i in range(80)]
    static = [(iri(f"x{i}"), iri("in"), iri(f"r{i % 2}")) for i in range(4)] + [
        (iri(f"r{i}"), iri("of"), '"k"') for i in range(2)
    ]
    query = register(QUERY, World({EX + "S": [elements]}, static), folder / "q")
    chunks, state = query.chunks(HOW), folder / "state"
    driver = query.driver(HOW, state, sink=sink, trace=TraceFile(folder / "trace.jsonl"))
    for number in range(BEFORE):
        driver.batch(number, chunks[number])
    return query, chunks, state


def finished(query: Registered, chunks: list[Any], folder: Path, sink: FileSink | FolderSink) -> None:
    driver = query.driver(HOW, folder / "state", sink=sink, trace=TraceFile(folder / "trace.jsonl"))
    for number in range(BEFORE, len(chunks)):
        driver.batch(number, chunks[number])


def records(path: Path) -> bool:
    """A lock has no content that counts."""
    return path.name.startswith(".")


def counting(state: Path) -> list[Path]:
    """The files that the last record names."""
    path = max((state / "commits").glob("[0-9]*.json"))
    last = documents.decode(path.name, path.read_bytes())["state"]
    return [path, state / NAME, *(state / name for name in (last["optimizer"], *(file["path"] for file in last["files"])))]


def put_out(folder: Path) -> list[tuple[str, bytes]]:
    return [(str(path.relative_to(folder)), path.read_bytes()) for path in files_of(folder / "out")]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_damaged_checkpoint(tmp_path: Path, size: str, kind: str) -> None:
    folder = tmp_path / "run"
    (folder / "out").mkdir(parents=True)

    def sink() -> FileSink | FolderSink:
        return FileSink(folder / "out" / "answers.jsonl") if kind == "file" else FolderSink(folder / "out" / "answers")

    query, chunks, state = started(folder, sink())
    forget()
    shutil.copytree(folder, tmp_path / "whole")
    finished(query, chunks, folder, sink())
    wanted = put_out(folder)
    outcomes: Counter[str] = Counter()
    for seed in range(CASES // 2):
        again(tmp_path / "whole", folder)
        rng = random.Random(f"{size} {kind} {seed}")
        files = files_of(state, records) if seed % 5 == 3 else counting(state)
        files += [*files_of(folder / "out"), folder / "trace.jsonl"]
        if seed % 5 == 4:  # static relations of the query
            files = files_of(folder / "q" / "static") + files_of(folder / "q" / "store")
        what, changed = damaged(rng, files)
        found = check_checkpoint(state, next(iter((folder / "out").iterdir())), folder / "trace.jsonl")
        forget()
        try:
            finished(query, chunks, folder, sink())
        except (StoreError, CheckpointError) as error:
            one_sentence(error)
            outcomes["named"] += 1
        else:
            assert put_out(folder) == wanted, what
            outcomes["right" if changed else "the same file"] += 1
        if changed and seed % 5 != 4:
            assert found, what
            assert all("\n" not in sentence for sentence in found)
    assert outcomes["named"] > CASES / 8, outcomes


def again(source: Path, target: Path) -> None:
    """The folder as it was."""
    forget()
    shutil.rmtree(target)
    shutil.copytree(source, target)


def test_an_intact_checkpoint_has_no_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sink = FileSink(tmp_path / "out.jsonl")
    _, _, state = started(tmp_path, sink)
    words = ["checkpoint", "check", str(state), "--out", str(sink.path), "--trace", str(tmp_path / "trace.jsonl")]
    assert main(words) == 0
    assert capsys.readouterr().out == f"{state}: whole\n"
    sink.path.write_bytes(b"?" + sink.path.read_bytes()[1:])
    path = max((state / "slots").iterdir())
    path.write_bytes(path.read_bytes()[:-1])
    forget()
    assert main(words) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and said[0].startswith(f"{path}: the checkpoint is damaged") and str(sink.path) in said[1]
    assert main(["checkpoint", "check", str(tmp_path / "q")]) == 2
    assert "it is not a checkpoint" in capsys.readouterr().err


def test_the_committed_part_of_answers_is_verified_before_anything_is_appended(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "out.jsonl")
    query, chunks, _ = started(tmp_path, sink)
    before = sink.path.read_bytes()
    assert before
    sink.path.write_bytes(before.replace(b"1", b"2", 1) + b"half a line")
    with pytest.raises(CheckpointError, match=r"out\.jsonl: its first \d+ bytes are not those that the checkpoint has committed"):
        finished(query, chunks, tmp_path, FileSink(sink.path))
    assert sink.path.read_bytes() == before.replace(b"1", b"2", 1) + b"half a line"
