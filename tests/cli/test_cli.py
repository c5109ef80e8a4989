"""The command line: arguments of the engine, output, and exit codes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cqels_opt.cli import grammar, verification
from cqels_opt.cli import main as main_module
from cqels_opt.cli.grammar import parse
from cqels_opt.cli.java import Java
from cqels_opt.cli.main import main
from cqels_opt.cli.options import (
    TIME_PREDICATE,
    BenchOptions,
    CalibrateOptions,
    DemoOptions,
    ExplainOptions,
    LoadOptions,
    RunOptions,
)
from cqels_opt.cli.run_results import LoadSummary, Summary, VerifySummary
from cqels_opt.compiler.registration import member_of, record_of
from cqels_opt.errors import DataError, EngineWarning, InputError, QueryError, RunError
from cqels_opt.lod.build import build_store
from cqels_opt.trace.page import trace_page
from cqels_opt.trace.records import read_trace
from cqels_opt.windows.batch_size import DEFAULT_BATCH, BatchSize
from cqels_opt.windows.instants import Policy

TRACE = Path(__file__).parents[1] / "trace" / "q2.jsonl"
COMMANDS = ("run", "explain", "verify", "load", "store", "trace", "calibrate", "bench", "demo")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for file in ("q.rq", "s.ndjson", "a.nt"):
        (tmp_path / file).write_text("")
    (tmp_path / "live").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(main_module, "find_java", lambda: Java(Path("java"), 17))
    return tmp_path


def stand_in(monkeypatch: pytest.MonkeyPatch, module: str, **functions: Callable[[Any], Any]) -> list[Any]:
    """Replaces a module by one with these functions; returns the list of their calls."""
    calls: list[Any] = []
    made = ModuleType(module)
    for name, function in functions.items():

        def called(options: Any, function: Callable[[Any], Any] = function) -> Any:
            calls.append(options)
            return function(options)

        setattr(made, name, called)
    monkeypatch.setitem(sys.modules, module, made)
    return calls


def parsed(*words: str) -> RunOptions:
    command, options = parse(["run", "q.rq", *words])
    assert command == "run" and isinstance(options, RunOptions)
    return options


# ------------------------------------------------------------------ options
@pytest.mark.usefixtures("folder")
def test_what_is_not_said_has_its_default() -> None:
    assert parsed() == RunOptions(query=Path("q.rq"))


@pytest.mark.usefixtures("folder")
def test_every_option_of_the_interface() -> None:
    options = parsed(
        *("--stream", "http://s", "s.ndjson", "--stream", "<urn:t>", "live", "--static", "a.nt", "--static", "a.nt"),
        *("--graph", "http://g/", "a.nt", "--store", "live", "--dialect", "cqels", "--profile", "rspql"),
        *("--report", "wc,nc", "--report", "?w=p:10s,cc", "--output-operator", "dstream", "--duplicates", "set"),
        *("--bounds", "closed-open", "--t0", "-5", "--t0", "w2=1500", "--lateness", "2s", "--idle-timeout", "1h30m"),
        *("--max-ahead", "1h"),
        *("--eager", "--on-error", "skip", "--time-predicate", "http://t", "--plan", "fixed:a » b[?x]; b » a[?x]"),
        *(
            "--joins",
            "partitioned",
            "--constants",
            "default",
            "--sub-result-bytes",
            "64M",
            "--batch",
            "500ms",
            "--checkpoint",
            "ck",
            "--trace",
            "t.jsonl",
            "--out",
            "a.jsonl",
        ),
        *("--max-rows", "1000", "--max-time", "1m", "--max-state", "10G", "--max-memory", "512M", "--max-bound", "9"),
        *("--follow", "--master", "local-cluster[2,1,1024]", "--debug"),
    )
    assert options == RunOptions(
        query=Path("q.rq"),
        streams=(("http://s", Path("s.ndjson")), ("urn:t", Path("live"))),
        static=(Path("a.nt"), Path("a.nt")),
        graphs=(("http://g/", Path("a.nt")),),
        store=Path("live"),
        dialect="cqels",
        profile="rspql",
        report={"": Policy(window_close=True, non_empty=True), "w": Policy(content_change=True, period=10_000)},
        output_operator="dstream",
        duplicates="set",
        bounds="closed-open",
        t0={"": -5, "w2": 1500},
        lateness=2000,
        idle_timeout=5_400_000,
        max_ahead=3_600_000,
        eager=True,
        on_error="skip",
        time_predicate="http://t",
        plan="fixed",
        fixed="a » b[?x]; b » a[?x]",
        joins="partitioned",
        constants="default",
        sub_result_bytes=64 << 20,
        batch=BatchSize(duration=500),
        checkpoint=Path("ck"),
        trace=Path("t.jsonl"),
        out=Path("a.jsonl"),
        follow=True,
        master="local-cluster[2,1,1024]",
        debug=True,
        max_rows=1000,
        max_time=60_000,
        max_state=10 << 30,
        max_memory=512 << 20,
        max_bound=9,
    )


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("option", "value"),
    [("rows", "0"), ("rows", "1.5"), ("bound", "0"), ("time", "0"), ("state", "0"), ("memory", "0k"), ("memory", "much")],
)
def test_a_limit_allows_something(option: str, value: str) -> None:
    with pytest.raises(InputError, match=f"--max-{option}: '{value}' is "):
        parsed(f"--max-{option}", value)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "batch"),
    [
        ("1", BatchSize(count=1)),
        ("5000", BatchSize(count=5000)),
        ("2s", BatchSize(duration=2000)),
        ("1m", BatchSize(duration=60_000)),
    ],
)
def test_batches(text: str, batch: BatchSize) -> None:
    assert parsed("--batch", text).batch == batch


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("4050", ("127.0.0.1", 4050)),
        ("0", ("127.0.0.1", 0)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("node7:80", ("node7", 80)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parsed("--ui", text).ui == address


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("plan", ["adaptive", "first", "static", "worst", "spark"])
def test_plan_policies(plan: str) -> None:
    assert (parsed("--plan", plan).plan, parsed("--plan", plan).fixed) == (plan, None)


@pytest.mark.usefixtures("folder")
def test_the_dash_is_standard_output() -> None:
    assert parsed("--out", "-").out is None
    assert parsed().time_predicate == TIME_PREDICATE


# ------------------------------------------------------------------ commands
SUMMARY = Summary(batches=12, elements=60_000, answers=1, late=2, rejected=1, switches=3, seconds=4.25, trace=Path("t.jsonl"))


@pytest.mark.usefixtures("folder")
def test_run_prints_its_summary_to_standard_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    calls = stand_in(monkeypatch, "cqels_opt.cli.commands", run=lambda _: SUMMARY)
    assert main(["run", "q.rq", "--drain"]) == 0
    assert calls == [RunOptions(query=Path("q.rq"), drain=True)]
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "12 batches, 60,000 elements (2 late, 1 rejected), 1 answer, 3 plan switches, 4.2 s\ntrace: t.jsonl\n"


def test_a_stopped_run_says_so() -> None:
    summary = Summary(batches=1, elements=5, answers=0, rejects=Path("t.rejected"), stopped=True)
    assert str(summary).splitlines() == [
        "stopped after 1 batch, 5 elements (0 late, 0 rejected), 0 answers, 0 plan switches, 0.0 s",
        "rejected elements and why: t.rejected",
    ]


@pytest.mark.parametrize(("printed", "text"), [(1, "5 answers (1 printed), "), (5, "5 answers, "), (None, "5 answers, ")])
def test_answers_that_a_limit_cut_off_are_not_counted_as_printed(printed: int | None, text: str) -> None:
    assert text in str(Summary(batches=1, elements=5, answers=5, printed=printed))


@pytest.mark.usefixtures("folder")
def test_explain(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    calls = stand_in(monkeypatch, "cqels_opt.cli.commands", explain=lambda _: "delta w: w » a[?x]")
    assert main(["explain", "q.rq", "--format", "json", "--all"]) == 0
    assert calls == [ExplainOptions(RunOptions(query=Path("q.rq")), "json", all=True)]
    assert capsys.readouterr().out == "delta w: w » a[?x]\n"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("report", "code", "lines"),
    [
        (VerifySummary(3, 1000, 0), 0, ["1,000 answers at 3 instants compared: all are the same"]),
        (
            VerifySummary(1, 2, 1, ("at 5: + x is missing",)),
            1,
            ["2 answers at 1 instant compared: 1 difference", "at 5: + x is missing"],
        ),
    ],
)
def test_verify(
    report: VerifySummary, code: int, lines: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(monkeypatch, "cqels_opt.cli.commands", run=lambda _: None)
    monkeypatch.setattr(verification, "verify", lambda options, run: report)
    assert main(["verify", "q.rq"]) == code
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.usefixtures("folder")
def test_load(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    calls = stand_in(
        monkeypatch, "cqels_opt.cli.commands", load=lambda _: LoadSummary(Path("st"), 1_000_000, rejected=1, seconds=2.0)
    )
    assert main(["load", "a.nt", "--graph", "http://g", "a.nt", "--store", "st", "--on-error", "skip"]) == 0
    assert calls == [LoadOptions(Path("st"), (Path("a.nt"),), (("http://g", Path("a.nt")),), "skip")]
    assert capsys.readouterr().err == "1,000,000 triples in st (1 line rejected), 2.0 s\n"


def test_a_store_is_updated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.nt").write_text("<http://a> <http://p> <http://c> .\n<http://a> <http://p> <http://d> .\n")
    (tmp_path / "r.nq").write_text("<http://a> <http://p> <http://b> .\n")
    build_store(tmp_path / "st", [("<http://a>", "<http://p>", "<http://b>", None)])
    store, come, gone = (str(tmp_path / name) for name in ("st", "a.nt", "r.nq"))
    assert main(["load", "--update", store, "--add", come, "--remove", gone, "--graph", "http://g", come]) == 0
    assert capsys.readouterr().err.startswith(f"version 2 of {store}: 4 added, 1 removed, 4 triples, ")
    assert main(["store", "info", store]) == 0
    said = capsys.readouterr().out
    assert "4 triples, 6 terms, 1 named graphs" in said
    assert "version 2, format 5, fingerprint" in said


@pytest.mark.usefixtures("folder")
def test_demo_and_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    demos = stand_in(monkeypatch, "cqels_opt.cli.demo", demo=lambda _: None)
    for words in (["demo"], ["demo", "--days", "7"], ["demo", "--all", "--out", "d"]):
        assert main(words) == 0
    assert demos == [DemoOptions(), DemoOptions(days=7), DemoOptions(days=None, out=Path("d"))]
    benches = stand_in(monkeypatch, "cqels_opt.bench.harness", bench=lambda _: None)
    monkeypatch.setattr(sys.modules["cqels_opt.bench.harness"], "check", lambda _: None, raising=False)
    assert main(["bench", "q2", "q3", "--quick", "--json", "o.json"]) == 0
    assert main(["bench", "--list", "--keep", "k"]) == 0
    assert main(["bench", "adaptive-join", "--job", "star", "--job", "memory", "--data", "live"]) == 0
    assert benches == [
        BenchOptions(("q2", "q3"), quick=True, json=Path("o.json")),
        BenchOptions(list=True, keep=Path("k")),
        BenchOptions(("adaptive-join",), jobs=("star", "memory"), data=Path("live")),
    ]


@pytest.mark.usefixtures("folder")
def test_calibrate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    calls = stand_in(monkeypatch, "cqels_opt.cli.constants", calibrate=lambda _: "constants: measured")
    for words in ([], ["--show"], ["--no-spark"], ["--master", "local[1]"]):
        assert main(["calibrate", *words]) == 0
    assert calls == [
        CalibrateOptions(),
        CalibrateOptions(show=True),
        CalibrateOptions(spark=False),
        CalibrateOptions(master="local[1]"),
    ]
    assert capsys.readouterr().out == "constants: measured\n" * 4


def test_trace_in_the_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["trace", str(TRACE)]) == 0
    assert capsys.readouterr().out == (TRACE.parent / "goldens" / "q2.txt").read_text(encoding="utf-8")


def test_trace_as_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "o.html"
    assert main(["trace", str(TRACE), "--html", str(out)]) == 0
    assert out.read_text(encoding="utf-8") == trace_page(read_trace(TRACE), "q2.jsonl")
    assert capsys.readouterr().err == f"page: {out}\n"


def test_two_traces_as_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, other = tmp_path / "o.html", tmp_path / "other.jsonl"
    other.write_text("".join(record.line() for record in islice(read_trace(TRACE), 3)), encoding="utf-8")
    assert main(["trace", str(TRACE), "--html", str(out), "--compare", str(other)]) == 0
    expected = trace_page(read_trace(TRACE), "q2.jsonl", (read_trace(other), "other.jsonl"))
    assert out.read_text(encoding="utf-8") == expected
    assert main(["trace", str(TRACE), "--compare", str(other)]) == 2
    assert "--compare: two traces are compared on a page: add --html OUT.html" in capsys.readouterr().err
    assert main(["trace", str(TRACE), "--html", str(other), "--compare", str(other)]) == 2
    assert "the file is given twice, and would be overwritten" in capsys.readouterr().err


# ------------------------------------------------------------------ errors
def failing(error: BaseException) -> Callable[[Any], Any]:
    def fail(_: Any) -> Any:
        raise error

    return fail


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("error", "code", "printed"),
    [
        (InputError("stream http://s: nobody gives it"), 2, ["stream http://s: nobody gives it"]),
        (DataError("a.nt:7: no full stop"), 2, ["a.nt:7: no full stop"]),
        (
            QueryError("undeclared window ?w", "SELECT *\n{ WINDOW ?w {} }", 2, 10, "q.rq"),
            2,
            ["q.rq:2:10: undeclared window ?w", "{ WINDOW ?w {} }", "         ^"],
        ),
        (RunError("an executor was lost\nmore"), 3, ["an executor was lost"]),
        (ValueError("\n  odd\npages\nof stack"), 3, ["ValueError: odd (--debug shows where)"]),
        (KeyError(), 3, ["KeyError: no reason given (--debug shows where)"]),
        (KeyboardInterrupt(), 3, ["stopped before anything was done"]),
    ],
)
def test_errors_and_their_exit_codes(
    error: BaseException, code: int, printed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(monkeypatch, "cqels_opt.cli.commands", run=failing(error))
    assert main(["run", "q.rq"]) == code
    assert capsys.readouterr().err.splitlines() == printed


def test_an_interrupt_while_the_words_are_parsed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(grammar._COMMANDS, "check", lambda: failing(KeyboardInterrupt())(None))
    assert main(["check", "q.rq"]) == 3
    assert capsys.readouterr().err.strip() == "stopped before anything was done"


def test_warnings_of_the_engine_are_one_line_each(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def warn(_: object) -> int:
        warnings.warn("all triples of batch 1 are rejected", EngineWarning, stacklevel=1)
        warnings.warn("of another kind", RuntimeWarning, stacklevel=1)
        return 0

    monkeypatch.setitem(main_module._COMMANDS, "calibrate", warn)
    with pytest.warns(RuntimeWarning) as found:
        assert main(["calibrate", "--show"]) == 0
    assert capsys.readouterr().err == "warning: all triples of batch 1 are rejected\n"
    assert [str(one.message) for one in found] == ["of another kind"]


@pytest.mark.usefixtures("folder")
def test_the_stack_trace_only_with_debug(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in(monkeypatch, "cqels_opt.cli.commands", run=failing(RunError("broken")))
    assert main(["run", "q.rq"]) == 3
    assert "Traceback" not in capsys.readouterr().err
    assert main(["run", "q.rq", "--debug"]) == 3
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_without_java_there_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def none() -> Java:
        raise InputError("Spark needs Java")

    monkeypatch.setattr(main_module, "find_java", none)
    calls = stand_in(monkeypatch, "cqels_opt.cli.commands", run=lambda _: SUMMARY)
    assert main(["run", "q.rq"]) == 2
    assert (capsys.readouterr().err, calls) == ("Spark needs Java; --engine local runs the query without Spark and Java\n", [])


# ------------------------------------------------------------------ help
@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["--version"], *([command, "--help"] for command in COMMANDS)])
def test_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    printed = capsys.readouterr()
    assert "cqels-opt" in printed.out
    assert printed.err == ""


def test_the_help_has_the_default_size_of_a_batch(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    assert f"stream time (default: {DEFAULT_BATCH.count})" in " ".join(capsys.readouterr().out.split())


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys, contextlib, io\nfrom cqels_opt.cli.main import main\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n    main(['run', '--help'])\n"
        "print([name for name in ('pyspark', 'numpy', 'pandas', 'pyarrow', 'rdflib', 'lark', 'networkx') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_commands_and_workers_import_no_library_that_they_seldom_use() -> None:
    program = (
        "import sys, cqels_opt.cli.commands, cqels_opt.spark.batch_tasks\n"
        "seldom = ('networkx', 'rdflib', 'sqlglot', 'prometheus_client', 'http.server', 'scipy.stats')\n"
        "print([name for name in seldom if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "words", [["trace", str(TRACE)], ["trace", str(TRACE), "--follow"], ["demo", "--days", "1"]], ids=["trace", "follow", "demo"]
)
def test_a_reader_that_leaves_is_no_failure(words: list[str], tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        command = [sys.executable, "-m", "cqels_opt.cli.main", *words, *(["--out", str(tmp_path)] if words[0] == "demo" else [])]
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_several_queries_and_another_dialect(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, what in (("a", "CONSTRUCT { ?x :b ?y }"), ("b", "ASK")):
        text = f"PREFIX : <http://ex.org/> {what} FROM NAMED :S [RANGE 5s] AS ?w WHERE {{ GRAPH ?w {{ ?x :a ?y }} }}"
        (tmp_path / f"{name}.rq").write_text(text, encoding="utf-8")
    words = ["convert", str(tmp_path / "a.rq"), str(tmp_path / "b.rq"), "--to"]
    _, options = parse([*words, "cqels"])
    assert options.run.queries == (tmp_path / "a.rq", tmp_path / "b.rq") and options.to == "cqels"
    assert main([*words, "cqels"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("FROM NAMED <http://ex.org/S> [RANGE 5s] AS ?w") == 2 and "ASK" in printed
    assert main([*words, "rspql"]) == 2
    assert "rspql cannot express this query: it has no clause for the window w, a range without a step" in capsys.readouterr().err


QUERY = "PREFIX : <http://ex.org/>\nSELECT ?x ?z\nFROM NAMED :S [RANGE 5s] AS ?w\nWHERE { GRAPH ?w { ?x :a ?y } }"


def test_check_describes_a_query_and_warns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(QUERY))
    assert main(["check", "-", "--report", "p:5s"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "stdin: cqels, SELECT ?x ?z",
        "  window w over <http://ex.org/S>: FROM NAMED :S [RANGE 5s] AS ?w; reports every 5.0 s (p)",
        "  profile cqels: emits the rows that are new (istream); a triple that repeats in a window counts each time (bag)",
    ]
    assert "?z is in SELECT, and nothing binds it" in printed.err


def test_convert_points_at_what_the_dialect_cannot_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "-e", QUERY, "--to", "rspql"]) == 2
    assert capsys.readouterr().err.splitlines()[0].startswith("query:3:1: rspql cannot express this query")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check"], "QUERY.rq is missing: name a file, - for standard input, or give the text with -e TEXT"),
        (["check", "q.rq", "-e", "ASK {}"], "-e: the query is given twice"),
        (["check", "q.rq", "-"], "-: standard input is one query"),
        (["convert", "q.rq"], "--to is missing: choose from cqels, rspql"),
        (["run", "q.rq", "--conf", "memory=4g"], "--conf: 'memory=4g' is no setting of Spark: write spark.NAME=VALUE"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_wrong_queries_and_settings(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_completion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--completion", "zsh"]) == 0
    printed = capsys.readouterr().out
    assert "_CQELS_OPT_COMPLETE=zsh_complete" in printed
    assert printed.index("autoload -Uz compinit") < printed.index("compdef _cqels_opt")


@pytest.mark.parametrize("report", [5, ["wc"], {"w": 5}, {5: "wc"}])
def test_wrong_types_of_a_report_are_sentences(report: Any) -> None:
    with pytest.raises(InputError, match="give policies"):
        record_of(QUERY, "q", report=report)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"duplicates": "x"}, "duplicates='x': choose from set, bag"),
        ({"bounds": 1}, "bounds=1: choose from open-closed, closed-open"),
        ({"output_operator": "x"}, "output_operator='x': choose from istream, dstream, rstream"),
        ({"t0": 5}, "t0=5: give milliseconds by the name of a window"),
        ({"t0": {"w": "5"}}, "t0={'w': '5'}: give milliseconds by the name of a window"),
        ({"t0": {"w": 1 << 54}}, "a time is at most 2.53 milliseconds from 1970"),
        ({"types": {"a": 5}}, "types={'a': 5}: give the type of a column by its variable"),
        ({"sub_result_bytes": "x"}, "sub_result_bytes='x': give a number of bytes, at least 0"),
        ({"sub_result_bytes": -1}, "sub_result_bytes=-1: give a number of bytes, at least 0"),
        ({"profile": "cqel"}, r"unknown profile 'cqel'; did you mean cqels\?; there are cqels, .*cqels-1\.x"),
    ],
)
def test_wrong_values_of_options_are_sentences(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        member_of(record_of(QUERY, "q", **options))
