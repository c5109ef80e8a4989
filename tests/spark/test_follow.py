"""A folder as a live source: files are read as they arrive, Ctrl-C ends the run, and the next start continues from there."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from cqels_opt.cli.main import main
from cqels_opt.lod.build import build_store
from cqels_opt.query.parser import parse
from cqels_opt.storage import documents
from cqels_opt.trace.records import StoreVersions, read_trace
from cqels_opt.verify import Inputs, Options, Refreshed, evaluate, read_answers, read_inputs

from .command import Command, lines
from .small_world import MAP, MET, STREAM, rows, write_query, write_rows, write_world

ROWS = rows(80, seed=4)


@pytest.mark.long
def test_files_come_while_it_runs(tmp_path: Path) -> None:
    files = write_world(tmp_path, 1)
    folder, out, trace = tmp_path / "live", tmp_path / "out.jsonl", tmp_path / "trace.jsonl"
    folder.mkdir()
    words = ["run", str(write_query(tmp_path, MET)), "--stream", STREAM, str(folder), "--static", str(files.static)]
    words += ["--graph", MAP, str(files.places), "--out", str(out), "--trace", str(trace), "--master", "local[1]"]
    words += ["--checkpoint", str(tmp_path / "checkpoint"), "--batch-bytes", "1"]

    def bring(number: int) -> None:
        """A file appears as a whole; one has an unreadable line, which a live source skips."""
        write_rows(tmp_path / "new", ROWS[20 * number : 20 * number + 20])
        if number == 1:
            with (tmp_path / "new").open("a") as file:
                file.write('{"s": "nobody"}\n')
        os.utime(tmp_path / "new", (1_000_000_000 + number, 1_000_000_000 + number))
        (tmp_path / "new").rename(folder / f"{number}.ndjson" if number < 2 else folder / f"{number} 100%25#?.ndjson")

    for first in (0, 2):
        if first:  # both exist: a batch takes one, since it exceeds one byte only with a single file
            bring(first)
            bring(first + 1)
            # as after a kill between our commit and Spark's, which Ctrl-C too may come between: the batch is repeated,
            # and its elements are not late
            for note in ("1", ".1.crc"):
                (tmp_path / "checkpoint" / "spark" / "commits" / note).unlink(missing_ok=True)
        command = Command(words)
        for number in (first, first + 1):
            if not first:
                bring(number)
            command.until(lambda: lines(trace) > number)  # noqa: B023
        command.interrupt()
        done = command.finish()
        assert (done.code, done.out) == (0, ""), done.err
        assert f"stopped after {first + 2} batches, {20 * (first + 2)} elements (0 late, 1 rejected)" in done.err
    records = list(read_trace(trace))
    assert [r.elements for r in records] == [20] * 4
    assert [r.jobs for r in records] == [1] * 4
    assert [r.lag.waiting for r in records] == [0, 2, 1, 0]  # the repeated batch is recorded as it was the second time
    assert [r.lag.time for r in records] == [1] * 4  # the last instant waits for more elements of its time
    assert "1.ndjson" in (tmp_path / "trace.jsonl.rejected").read_text()
    write_rows(tmp_path / "all.ndjson", ROWS)
    inputs = read_inputs([(STREAM, tmp_path / "all.ndjson")], [files.static], [(MAP, files.places)]).inputs
    found = evaluate(parse(MET), inputs, Options())
    assert read_answers(out) == Counter({key: count for key, count in found.items() if key[0] < ROWS[-1][3]})


@pytest.mark.long
def test_an_idle_folder_is_let_go(tmp_path: Path) -> None:
    """The second file appears in one folder only: with --idle-timeout answers continue; the other folder delays nothing."""
    folders, out, trace = {name: tmp_path / name for name in "ST"}, tmp_path / "out.jsonl", tmp_path / "trace.jsonl"
    query = tmp_path / "query.rq"
    query.write_text(
        "PREFIX : <http://ex.org/> SELECT ?a ?b FROM NAMED :S [RANGE 9s] AS ?s FROM NAMED :T [RANGE 9s] AS ?t "
        "{ { GRAPH ?s { ?a :at :x } } UNION { GRAPH ?t { ?b :at :x } } }",
        encoding="utf-8",
    )

    def bring(name: str, number: int, *seconds: int) -> None:
        """A file appears as a whole."""
        triple = {"p": "<http://ex.org/at>", "o": "<http://ex.org/x>"}
        elements = [{"s": f"<http://ex.org/{name}{second}>", **triple, "t": 1000 * second} for second in seconds]
        (tmp_path / "new").write_text("".join(json.dumps(element) + "\n" for element in elements), encoding="utf-8")
        (tmp_path / "new").rename(folders[name] / f"{number}.ndjson")

    for name, folder in folders.items():
        folder.mkdir()
        bring(name, 0, 1, 2)
    words = ["run", str(query), "--out", str(out), "--trace", str(trace), "--master", "local[1]", "--idle-timeout", "1ms"]
    words += [word for name, folder in folders.items() for word in ("--stream", f"http://ex.org/{name}", str(folder))]
    command = Command([*words, "--checkpoint", str(tmp_path / "checkpoint")])
    command.until(lambda: lines(trace) > 0)
    bring("S", 1, 3, 7)
    command.until(lambda: lines(trace) > 1)
    command.interrupt()
    assert command.finish().code == 0
    assert [record.frontier for record in read_trace(trace)] == [1999, 6999]
    assert {time for time, _, _ in read_answers(out)} == {1000, 2000, 3000}
    decisions = sorted((tmp_path / "checkpoint" / "idle").iterdir())
    assert [documents.decode(path.name, path.read_bytes()) for path in decisions] == [[], ["<http://ex.org/T>"]]


@pytest.mark.long
def test_the_store_is_updated_while_it_runs(tmp_path: Path) -> None:
    files = write_world(tmp_path, 1)
    folder, out, trace, store = tmp_path / "live", tmp_path / "out.jsonl", tmp_path / "trace.jsonl", tmp_path / "store"
    folder.mkdir()
    before = read_inputs([], [files.static], [(MAP, files.places)]).inputs
    named = [(*triple, f"<{MAP}>") for triple in before.graphs[MAP.strip("<>")]]
    build_store(store, [*((*triple, None) for triple in before.default), *named])
    gone, come = before.default[::3], [(s, p, before.default[0][2]) for s, p, _ in before.default[1::5]]
    for name, triples in (("gone.nt", gone), ("come.nt", come)):
        (tmp_path / name).write_text("".join(f"{' '.join(triple)} .\n" for triple in triples))
    words = ["run", str(write_query(tmp_path, MET)), "--stream", STREAM, str(folder), "--store", str(store), "--out", str(out)]
    words += ["--trace", str(trace), "--master", "local[1]", "--checkpoint", str(tmp_path / "checkpoint")]

    def bring(number: int) -> None:
        write_rows(tmp_path / "new", ROWS[20 * number : 20 * number + 20])
        os.utime(tmp_path / "new", (1_000_000_000 + number, 1_000_000_000 + number))
        (tmp_path / "new").rename(folder / f"{number}.ndjson")

    command = Command(words)
    for number in range(3):
        if number == 1:
            change = ["--update", str(store), "--add", str(tmp_path / "come.nt"), "--remove", str(tmp_path / "gone.nt")]
            assert main(["load", *change]) == 0
        bring(number)
        command.until(lambda: lines(trace) > number)  # noqa: B023
    command.interrupt()
    done = command.finish()
    assert done.code == 0, done.err
    records = list(read_trace(trace))
    assert [r.static for r in records] == [None, StoreVersions(2, 1), None]
    assert records[0].frontier is not None
    write_rows(tmp_path / "all.ndjson", ROWS[:60])
    after = sorted({*before.default} - {*gone} | {*come})
    later = (Refreshed(records[0].frontier + 1, after, before.graphs),)
    streams = read_inputs([(STREAM, tmp_path / "all.ndjson")]).inputs.streams
    found, all_new = (
        evaluate(parse(MET), Inputs(streams, default, before.graphs, later), Options()) for default in (before.default, after)
    )
    expected = Counter({key: count for key, count in found.items() if key[0] < ROWS[59][3]})
    assert read_answers(out) == expected
    assert found != all_new


@pytest.mark.long
def test_no_file_and_no_element_of_a_live_folder_goes_in_silence(tmp_path: Path) -> None:
    """A file modified years before the newest one is read; one that grows after it was read is reported once; one element of the
    year 9999 makes no later element late.
    """
    files = write_world(tmp_path, 1)
    folder, out, trace = tmp_path / "live", tmp_path / "out.jsonl", tmp_path / "trace.jsonl"
    folder.mkdir()
    words = ["run", str(write_query(tmp_path, MET)), "--stream", STREAM, str(folder), "--static", str(files.static)]
    words += ["--graph", MAP, str(files.places), "--out", str(out), "--trace", str(trace), "--master", "local[1]"]
    words += ["--max-ahead", "1h"]
    far = json.dumps({"s": "<a:s>", "p": "<a:p>", "o": "<a:o>", "t": "9999-12-31T23:59:59Z"}) + "\n"

    def bring(number: int, modified: int, more: str = "") -> None:
        write_rows(tmp_path / "new", ROWS[20 * number : 20 * number + 20])
        with (tmp_path / "new").open("a") as file:
            file.write(more)
        os.utime(tmp_path / "new", (modified, modified))
        (tmp_path / "new").rename(folder / f"{number}.ndjson")

    command = Command(words)
    for number, modified, more in ((0, 1_600_000_000, ""), (1, 1_000_000_000, far), (2, 1_600_000_001, "")):
        bring(number, modified, more)
        command.until(lambda: lines(trace) > number)  # noqa: B023
        with (folder / "0.ndjson").open("a") as file:
            file.write("half" if number == 0 else "")
    command.interrupt()
    done = command.finish()
    assert (done.code, done.out) == (0, ""), done.err
    assert "stopped after 3 batches, 60 elements (0 late, 1 rejected)" in done.err
    assert done.err.count("0.ndjson has changed since it was read") == 1
    assert done.err.count("1.ndjson: t is 9999-12-31T23:59:59.000Z, more than the maximum") == 1
    (first, second, third) = (record.notices for record in read_trace(trace))
    assert (len(first), len(second), len(third)) == (0, 2, 0)
    assert "0.ndjson has changed" in second[0]
    assert "more than the maximum" in second[1]
    write_rows(tmp_path / "all.ndjson", ROWS[:60])
    inputs = read_inputs([(STREAM, tmp_path / "all.ndjson")], [files.static], [(MAP, files.places)]).inputs
    found = evaluate(parse(MET), inputs, Options())
    assert read_answers(out) == Counter({key: count for key, count in found.items() if key[0] < ROWS[59][3]})
