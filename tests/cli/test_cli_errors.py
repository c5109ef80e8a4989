"""Wrong usage and input: exit code 2, one line on standard error that names the object, nothing on standard output."""

from __future__ import annotations

from pathlib import Path

import pytest

from cqels_opt.cli.main import main

STREAM = ["--stream", "http://s", "s.ndjson"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one of each kind of input, as the current folder."""
    for file in ("q.rq", "s.ndjson"):
        (tmp_path / file).write_text("")
    (tmp_path / "a.nt").write_text("# no triples\n")
    (tmp_path / "live").mkdir()
    (tmp_path / "t.jsonl").write_text("{}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def complaint(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert "usage" not in line
    assert "Traceback" not in line
    return line


USAGE: list[tuple[list[str], str]] = [
    (["run", "q.rq", "--ui", "home"], "--ui: 'home' is no address: write PORT, HOST:PORT or [IPV6]:PORT"),
    (["run", "q.rq", "--ui", "70000"], "--ui: '70000' is no address"),
    (["run", "q.rq", "--ui", "::1:80"], "--ui: '::1:80' is no address"),
    (["run", "q.rq", "--ui", ":80"], "--ui: ':80' is no address"),
    (["explain", "q.rq", "--ui", "80"], "there is no option '--ui'"),
    (["verify", "q.rq", "--stream", "http://s", "live"], "verify reads files from beginning to end: a live source"),
    (["verify", "q.rq", *STREAM, "--store", "."], "verify evaluates static data from their files"),
    (["verify", "q.rq", *STREAM, "--follow"], "verify reads files from beginning to end: a live source"),
    (
        ["run", "q.rq", "--stream", "http://s", "kafka://h:1/t", "--batch-bytes", "1M"],
        "--batch-bytes: it is for live folders; of a topic Python takes",
    ),
    (
        ["run", "q.rq", "--stream", "http://s", "kafka://h:1/t", "--stream", "http://s", "kafka://h:1/u"],
        "--stream http://s: the stream is given more than one topic; give it one",
    ),
    (["trace", "t.jsonl", "--ui", "80"], "--ui: it is for a trace that grows: add --follow"),
    (["trace", "t.jsonl", "--follow", "--html", "o.html"], "--html: a page is written of what is there"),
    (["trace", "t.jsonl", "--html", "t.jsonl"], "--html t.jsonl: the file is given twice"),
    (["trace", "t.jsonl", "--html", "-"], "--html -: a page is a file: name one"),
    (["trace", "none/t.jsonl", "--follow"], "trace: none/t.jsonl: there is no folder none"),
    (["trace", "t.jsonl", "--html", "a.nt"], "--html a.nt: it exists and is not a page: name another file"),
    (["bench", "flights", "--html", "a.nt"], "--html a.nt: it exists and is not a page: name another file"),
    (["bench", "flights", "--html", "o", "--json", "o"], "--html o: the file is given twice, and would be overwritten"),
    (["run", "q.rq", "--continue-changed"], "--continue-changed: it resumes from a checkpoint: give --checkpoint"),
    (["run", "q.rq", "--checkpoint", "."], "--checkpoint: .: it is a folder with other files in it, such as "),
    (["rum"], "cqels-opt: there is no command 'rum'; did you mean run?"),
    (["foo"], "cqels-opt: there is no command 'foo'; cqels-opt -h lists them"),
    (["run"], "cqels-opt run: QUERY.rq is missing"),
    (["run", "q.rq", "--colour", "red"], "cqels-opt run: there is no option '--colour'"),
    (["run", "q.rq", "--dupl", "set"], "there is no option '--dupl'; did you mean --duplicates?"),
    (["run", "q.rq", "--lat", "3s"], "there is no option '--lat'; did you mean --lateness?"),
    (["run", "q.rq", "--hlep"], "there is no option '--hlep'; did you mean --help?"),
    (["run", "q.rq", "--latenes", "5s"], "there is no option '--latenes'; did you mean --lateness?"),
    (["run", "q.rq", "--stream", "http://s"], "cqels-opt run: --stream: a value is missing: write --stream IRI PATH"),
    (["run", "q.rq", "--bounds"], "cqels-opt run: --bounds: a value is missing: write --bounds open-closed|closed-open"),
    (["run", "q.rq", "--processes", "0"], "--processes: '0' is not a whole number of at least 1"),
    (["run", "q.rq", "--drain=5"], "cqels-opt run: --drain: it takes no value"),
    (["demo", "28"], "cqels-opt demo: unexpected argument 28"),
    (["run", "q.rq", "--stream", "no iri", "s.ndjson"], "--stream: 'no iri' is no absolute IRI"),
    (["run", "q.rq", "--stream", "http://s{x}", "s.ndjson"], "--stream: 'http://s{x}' is no absolute IRI"),
    (["run", "q.rq", "--graph", "g", "a.nt"], "--graph: 'g' is no absolute IRI"),
    (["run", "q.rq", "--dialect", "sql"], "--dialect: there is no 'sql'; did you mean rspql? choose from auto, cqels, rspql"),
    (["run", "q.rq", "--profile", "auto"], "--profile: there is no 'auto'"),
    (["run", "q.rq", "--output-operator", "stream"], "--output-operator: there is no 'stream'; did you mean rstream?"),
    (["run", "q.rq", "--duplicates", "list"], "--duplicates: there is no 'list'; choose from set, bag"),
    (["run", "q.rq", "--bounds", "open"], "--bounds: there is no 'open'; did you mean open-closed?"),
    (["run", "q.rq", "--on-error", "ignore"], "--on-error: there is no 'ignore'"),
    (["run", "q.rq", "--time-predicate", "time"], "--time-predicate: 'time' is no absolute IRI"),
    (["run", "q.rq", "--report", "xx"], "--report: 'xx' is no report policy"),
    (["run", "q.rq", "--report", "p:1s,p:1500ms"], "--report: 'p:1s,p:1500ms' has two periods: give one p:DUR"),
    (["run", "q.rq", "--out", ""], "--out: the name is empty"),
    (["run", "q.rq", "--checkpoint", ""], "--checkpoint: the name is empty"),
    (["run", "q.rq", "--trace", ""], "--trace: the name is empty"),
    (["run", "q.rq", "--static", ""], "--static: the name is empty"),
    (["run", "q.rq", "--report", "wc,,nc"], "--report: '' is no report policy"),
    (["run", "q.rq", "--report", "nc"], "--report: 'nc' has no instants"),
    (["run", "q.rq", "--report", "p:0s"], "--report: '0s' is too short"),
    (["run", "q.rq", "--report", "p:soon"], "--report: soon is not a duration"),
    (["run", "q.rq", "--report", "=wc"], "--report: '=wc' names no window"),
    (["run", "q.rq", "--report", "cc", "--report", "wc"], "--report: it is given twice for all windows"),
    (["run", "q.rq", "--t0", "noon"], "--t0: 'noon' is no origin of time"),
    (
        ["run", "q.rq", "--t0", "99999999999999999999"],
        "--t0: no origin of time is more than 2^53",
    ),
    (["run", "q.rq", "--t0", "=5"], "--t0: '=5' is no origin of time"),
    (["run", "q.rq", "--t0", "w=1", "--t0", "?w=2"], "--t0: it is given twice for the window w"),
    (["run", "q.rq", "--lateness", "5"], "--lateness: 5 has no unit"),
    (["run", "q.rq", "--lateness", "-5s"], "--lateness: -5s is not a duration"),
    (["run", "q.rq", "--lateness", "5 parsecs"], "--lateness: unknown unit of time 'parsecs'"),
    (["run", "q.rq", "--lateness", "0.5ms"], "--lateness: 0.5ms is not a whole number of milliseconds"),
    (["run", "q.rq", "--lateness", ""], "--lateness: "),
    (["run", "q.rq", "--idle-timeout", "0s"], "--idle-timeout: '0s' is too short"),
    (["run", "q.rq", "--max-ahead", "0s"], "--max-ahead: '0s' is too short"),
    (["run", "q.rq", "--plan", "best"], "--plan: 'best' is no plan policy"),
    (["run", "q.rq", "--plan", "fixed:"], "--plan: 'fixed:' is no plan policy"),
    (["run", "q.rq", "--plan", "fixed"], "--plan: 'fixed' is no plan policy"),
    (["run", "q.rq", "--joins", "hash"], "--joins: there is no 'hash'"),
    (["run", "q.rq", "--joins", "probe", "--plan", "spark"], "--joins: --plan spark leaves the joins to Spark"),
    (["run", "q.rq", "--sub-result-bytes", "4 GB"], "--sub-result-bytes: '4 GB' is no size"),
    (["run", "q.rq", "--batch", "9" * 5000], "--batch: that is more elements than a stream has"),
    (["run", "q.rq", "--batch", "0"], "--batch: a micro-batch has at least 1 element"),
    (["run", "q.rq", "--batch", "-3"], "--batch: -3 is not a duration"),
    (["run", "q.rq", "--batch", "0s"], "--batch: '0s' is too short"),
    (
        ["run", "-e", "ASK { ?s ?p ?o }", "--engine", "local", "--store", "s3://b/st", "--static", "a.nt"],
        "s3://b/st: files are combined with a store in a folder",
    ),
    (["run", "q.rq", *STREAM, "--trace", "-"], "--trace -: a trace is a file"),
    (["run", "q.rq", *STREAM, "--out", "c/", "--checkpoint", "c"], "--out c: it is the folder of the checkpoint"),
    (["run", "q.rq", *STREAM, "--drain", "--follow"], "--drain: a live source"),
    (["run", "q.rq", "--stream", "http://s", "live", "--drain"], "--drain: a live source"),
    (["explain", "q.rq", "--format", "xml"], "--format: there is no 'xml'"),
    (["explain", "q.rq", "--at", "3"], "--at names micro-batches of a run: add --analyze"),
    (["explain", "q.rq", "--analyze", "--every", "0"], "--every: '0' is no number of micro-batches: write 1 or more"),
    (["load", "--store", "st"], "nothing to load"),
    (["load", "a.nt"], "where to: --store DIR writes a store, --update DIR changes one"),
    (["load", "--store", "st", "--add", "a.nt"], "--add and --remove are of an update: name the store with --update"),
    (["load", "--update", "st", "--add", "a.nt"], "--update: st: "),
    (["load", "--update", ".", "a.nt"], "a.nt: say with --add or --remove whether it comes or goes"),
    (["load", "--update", "."], "nothing to do: name files with --add, --remove"),
    (["load", "--update", ".", "--add", "a.nt"], "there is no store; cqels-opt load makes one"),
    (["load", "--update", ".", "--remove", "none.nt"], "--remove: none.nt: No such file or directory"),
    (["store", "repair", "live"], "there is no 'repair'; choose from info, check, void"),
    (["store", "info"], "cqels-opt store: DIR|URI is missing"),
    (["bench", "--scale", "3"], "there is no option '--scale'"),
    (["demo", "--days", "0"], "--days: '0' is no number of days"),
    (["demo", "--days", "many"], "--days: 'many' is no number of days"),
    (["demo", "--days", "3", "--all"], "--days and --all: leave one of the two out"),
]

FILES: list[tuple[list[str], str]] = [
    (["run", "none.rq"], "the query: none.rq: No such file or directory"),
    (["run", "q.rq", "none.rq"], "the query: none.rq: No such file or directory"),
    (["run", "live"], "the query: live: it is a folder; a file is expected"),
    (["run", "q.rq", "--stream", "http://s", "none.csv"], "--stream http://s: none.csv: No such file or directory"),
    (["run", "q.rq", "--stream", "http://s", "nul\0"], "--stream http://s: nul"),
    (["run", "q.rq", "--instances", "none.csv"], "--instances: none.csv: No such file or directory"),
    (["run", "q.rq", "--static", "none.nt"], "--static: none.nt: No such file or directory"),
    (["run", "q.rq", "--graph", "http://g", "none.nt"], "--graph http://g: none.nt: No such file or directory"),
    (["run", "q.rq", "--store", "none"], "--store: none: No such file or directory"),
    (["run", "q.rq", "--store", "a.nt"], "--store: a.nt: it is a file; a folder is expected"),
    (["run", "q.rq", "--store", "file:///none"], "--store: /none: No such file or directory"),
    (
        ["run", "q.rq", "--checkpoint", "s3://key:secret@b/x?region=r"],
        "s3://b/x: credentials, region and endpoint of a checkpoint come from the environment",
    ),
    (["store", "info", "nowhere://bucket/x"], "nowhere://bucket/x: "),
    (["run", "q.rq", "--checkpoint", "a.nt"], "--checkpoint: a.nt: it is a file; a folder is expected"),
    (["run", "q.rq", "--trace", "none/t.jsonl"], "--trace: none/t.jsonl: there is no folder none"),
    (["run", "q.rq", "--trace", "live"], "--trace: live: it is a folder; a file is expected"),
    (["run", "q.rq", "--out", "none/a.jsonl"], "--out: none/a.jsonl: there is no folder none"),
    (["run", "q.rq", *STREAM, "--out", "s.ndjson"], "--out s.ndjson: the file is given twice"),
    (["run", "q.rq", "--static", "a.nt", "--trace", "live/../a.nt"], "--trace live/../a.nt: the file is given twice"),
    (["run", "q.rq", "--trace", "x", "--out", "x"], "--out x: the file is given twice"),
    (["verify", "none.rq"], "the query: none.rq: No such file or directory"),
    (["explain", "none.rq"], "the query: none.rq: No such file or directory"),
    (["load", "none.nt", "--store", "st"], "load: none.nt: No such file or directory"),
    (["load", "a.nt", "--store", "a.nt"], "--store: a.nt: it is a file; a folder is expected"),
    (["store", "info", "none"], "store: none: No such file or directory"),
    (["trace", "none.jsonl"], "trace: none.jsonl: No such file or directory"),
    (["trace", "live"], "trace: live: it is a folder; a file is expected"),
    (["trace", "t.jsonl"], "t.jsonl:1: not a trace record that this version reads: the key 'batch' is absent"),
    (["trace", "t.jsonl", "--html", "none/o.html"], "--html: none/o.html: there is no folder none"),
    (["bench", "--json", "none/o.json"], "--json: none/o.json: there is no folder none"),
    (["bench", "adaptive-join", "--data", "none"], "--data: none: No such file or directory"),
    (["bench", "adaptive-join", "--data", "a.nt"], "--data: a.nt: it is a file; a folder is expected"),
    (["demo", "--out", "a.nt"], "--out: a.nt: it is a file; a folder is expected"),
    (["demo", "--out", "a.nt/below"], "--out: a.nt: it is a file; a folder is expected"),
]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("words", "expected"), [*USAGE, *FILES])
def test_one_line_and_exit_code_2(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert expected in complaint(words, capsys)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("odd", ["a\nb", "\x1b[31mred", "[bold]x[/bold]"])
def test_odd_text_stays_one_line(odd: str, capsys: pytest.CaptureFixture[str]) -> None:
    complaint(["run", odd], capsys)
    complaint(["run", "q.rq", "--plan", odd], capsys)
    complaint(["run", "q.rq", "--stream", odd, "s.ndjson"], capsys)
    complaint(["run", "q.rq", odd], capsys)
