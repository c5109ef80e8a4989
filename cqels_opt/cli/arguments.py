"""The command line's grammar, with usage errors reported in one line.

argparse parses the words. Its errors become :class:`InputError`, so that wrong usage is one line on standard error, like any
other wrong input, without the usage text.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NoReturn, TypeAlias, TypeVar

from cqels_opt import plugins
from cqels_opt.cli.options import (
    CONSTANTS,
    COST_MODELS,
    FILTERS,
    JOINS,
    TIME_PREDICATE,
    DemoOptions,
    parse_address,
    parse_batch,
    parse_bytes,
    parse_iri,
    parse_plan,
    parse_report,
    parse_t0,
)
from cqels_opt.errors import InputError
from cqels_opt.query import dialects
from cqels_opt.query.durations import parse_duration, parse_positive_duration
from cqels_opt.spark.kafka_topic import ANSWER_PAYLOADS

T = TypeVar("T")
_PAYLOAD = "json (rows of s p o t, the default), nt, ttl, nq, trig, jsonld, or a mapping of columns to triples"
Subparsers: TypeAlias = "argparse._SubParsersAction[_Parser]"


class _Parser(argparse.ArgumentParser):
    """argparse with errors as exceptions and without abbreviated options."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**{**keywords, "allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{self.prog}: {message}")


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands; its result has ``command`` and the command's own arguments."""
    parser = _Parser(prog="cqels-opt", description="Continuous SPARQL over RDF streams and Linked Open Data, on Spark.")
    parser.add_argument("--version", action="version", version=f"cqels-opt {version('cqels-opt')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, title="commands")

    run = _command(commands, "run", "run a continuous query over streams and static data")
    _query_arguments(run)
    _ui_argument(run, "serve the trace as a page while the job runs, and metrics for Prometheus at /metrics (0: any free port)")

    explain = _command(commands, "explain", "show the plans with their estimates, without running")
    _query_arguments(explain)
    explain.add_argument("--format", choices=("text", "json", "dot"), default="text", help="default: text")
    explain.add_argument(
        "--to", choices=dialects.names(), metavar="DIALECT", help="print the query in another dialect instead of its plans"
    )
    explain.add_argument(
        "--void",
        metavar="FILE",
        help="a VoID description of the static data: plan without the data, or compare it with the loaded data",
    )
    explain.add_argument("--all", action="store_true", help="show every retained alternative, not only the cheapest")
    explain.add_argument(
        "--analyze",
        action="store_true",
        help="run the query over its streams, without writing answers, and show what each operator of the last micro-batch took",
    )
    batches = explain.add_mutually_exclusive_group()
    batches.add_argument("--at", type=_type(_batch_number), metavar="BATCH", help="with --analyze: this micro-batch (from 0)")
    batches.add_argument("--every", type=_type(_batch_count), metavar="K", help="with --analyze: every K-th micro-batch")

    verify = _command(commands, "verify", "run, and compare every answer with an independent evaluation")
    _query_arguments(verify)

    load = _command(commands, "load", "load static data into a store, or update one while queries read it")
    load.add_argument("paths", nargs="*", metavar="PATH", help="files for the default graph")
    target = load.add_mutually_exclusive_group(required=True)
    target.add_argument("--store", metavar="DIR|URI", help="the folder of the store, or its URI in an object store")
    target.add_argument("--update", metavar="DIR", help="an existing store: write its next version, with --add and --remove")
    load.add_argument("--add", action="append", default=[], metavar="PATH", help="with --update: triples (quads) to add")
    load.add_argument(
        "--remove", action="append", default=[], metavar="PATH", help="with --update: triples (quads) to remove, before --add"
    )
    _graph_argument(load)
    _on_error_argument(load, "fail at a bad line, or skip it (default: fail)")
    _master_argument(load)

    store = _command(commands, "store", "show a store, verify its files, or describe it in VoID")
    store.add_argument("action", choices=("info", "check", "void"), metavar="info|check|void")
    store.add_argument("store", metavar="DIR|URI")

    checkpoint = _command(commands, "checkpoint", "verify the files of a checkpoint that no run uses")
    checkpoint.add_argument("action", choices=("check",), metavar="check")
    checkpoint.add_argument("checkpoint", metavar="DIR")
    checkpoint.add_argument("--out", metavar="FILE|DIR/", help="verify the committed part of these answers as well")
    checkpoint.add_argument("--trace", metavar="FILE.jsonl", help="verify the committed part of this trace as well")

    trace = _command(commands, "trace", "summarize a trace: plans, plan changes with their reasons, slow batches")
    trace.add_argument("trace", metavar="FILE.jsonl")
    trace.add_argument("--html", metavar="OUT.html", help="write a self-contained page instead")
    trace.add_argument(
        "--compare", metavar="OTHER.jsonl", help="with --html: another trace of the same queries, on the same page"
    )
    trace.add_argument("--follow", action="store_true", help="show the trace of a running job until Ctrl-C")
    _ui_argument(trace, "with --follow: serve it as a page as well")

    calibrate = _command(commands, "calibrate", "measure the constants of the cost model on this machine, for later runs")
    calibrate.add_argument("--show", action="store_true", help="only show the current constants and their origin")
    calibrate.add_argument("--no-spark", action="store_true", help="measure only what needs no Spark (two seconds)")
    _master_argument(calibrate)

    gateway = _command(commands, "gateway", "write messages of MQTT, a WebSocket or Server-Sent Events into a live folder")
    gateway.add_argument("url", metavar="URL", help="mqtt://host:port/topic, ws://host:port/path or http://host:port/path")
    gateway.add_argument("folder", metavar="DIR", help="the live folder, which `run --stream IRI DIR` follows")
    gateway.add_argument("--payload", default="json", metavar="FORMAT|FILE.toml", help=_PAYLOAD)
    gateway.add_argument(
        "--time-predicate", type=_type(parse_iri), default=TIME_PREDICATE, metavar="IRI", help="for RDF payloads (default: prov)"
    )
    gateway.add_argument(
        "--every",
        type=_type(parse_positive_duration),
        default=1000,
        metavar="DUR",
        help="write at most one file per DUR (default: 1s)",
    )
    gateway.add_argument("--refused", metavar="FILE.jsonl", help="the file for bad messages (default: DIR/_refused.jsonl)")
    gateway.add_argument("--client", default="", metavar="NAME", help="the MQTT client id of this gateway")
    gateway.add_argument("--send", metavar="TEXT", help="the first message to a WebSocket server")

    bench = _command(commands, "bench", "run scenarios of the benchmark harness")
    bench.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", help="a name of --list, or a file my.toml (default: evaluation)"
    )
    bench.add_argument("--list", action="store_true", help="list the scenarios and the contenders")
    bench.add_argument("--quick", action="store_true", help="run at small scale")
    bench.add_argument("--json", metavar="OUT", help="write the figures as JSON")
    bench.add_argument("--html", metavar="OUT", help="write figures and pictures as one page that needs no network")
    bench.add_argument("--page", metavar="OUT.md", help="with evaluation: write its page in Markdown")
    bench.add_argument(
        "--contender",
        action="append",
        default=[],
        metavar="FILE",
        help="one more contender: a Python or TOML file, or the name that an installed package adds; may be repeated",
    )
    bench.add_argument("--no-spark", action="store_true", help="leave out the contenders of scenarios that need Spark")
    bench.add_argument(
        "--keep",
        metavar="DIR",
        help="store each finished report, and reuse stored ones of the same commit and options",
    )
    bench.add_argument(
        "--job", action="append", default=[], metavar="NAME", help="with adaptive-join: only this job; may be repeated"
    )
    bench.add_argument(
        "--data",
        metavar="FOLDER",
        help="with adaptive-join: the folder package/data of the npm package vega-datasets (default: generated flights)",
    )

    demo = _command(
        commands, "demo", "run a continuous query over real departures and weather, adaptive beside two plans that never change"
    )
    days = demo.add_mutually_exclusive_group()
    days.add_argument(
        "--days", type=_type(_days), metavar="N", help="days from 7 February 2013, before the blizzard (default: 28)"
    )
    days.add_argument("--all", action="store_true", help="the whole year")
    demo.add_argument(
        "--out", default=str(DemoOptions().out), metavar="DIR", help="for data, answers, traces and the page (default: demo-out)"
    )
    demo.add_argument("--engine", choices=("local", "spark"), default="local", help="local (default): without Java")
    demo.add_argument("--verbose", action="store_true", help="also the first answers, and all plans and their changes")
    return parser


def _command(commands: Subparsers, name: str, what: str) -> _Parser:
    command = commands.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".")
    command.add_argument("--debug", action="store_true", help="show the stack trace of an error")
    return command


def _query_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", nargs="+", metavar="QUERY.rq", help="the file with the query; several run as one job")

    parser.add_argument(
        "--instances", metavar="FILE.csv",
        help="run one query once per row of this file: $NAME$ in its text stands for the value of the column NAME",
    )  # fmt: skip

    inputs = parser.add_argument_group("inputs")
    inputs.add_argument(
        "--stream",
        nargs=2,
        action="append",
        default=[],
        metavar=("IRI", "PATH"),
        help="a stream: a file, a folder of new files, or kafka://host:port/topic",
    )
    inputs.add_argument(
        "--payload", action="append", default=[], metavar="[IRI=]FORMAT|FILE.toml", help=f"format of topics: {_PAYLOAD}"
    )
    inputs.add_argument("--static", action="append", default=[], metavar="PATH", help="static data of the default graph")
    _graph_argument(inputs)
    inputs.add_argument(
        "--store", metavar="DIR|URI", help="a store that `load` wrote: a folder, or a URI such as s3://BUCKET/PREFIX"
    )
    inputs.add_argument("--follow", action="store_true", help="the streams are live (folders always are)")
    inputs.add_argument(
        "--time-predicate", type=_type(parse_iri), default=TIME_PREDICATE, metavar="IRI", help="for graph streams (default: prov)"
    )
    _on_error_argument(inputs, "fail at a bad line, or skip it (default: fail; for a live source: skip)", default=None)

    meaning = parser.add_argument_group("what the answers are")
    meaning.add_argument("--dialect", choices=("auto", *dialects.names()), default="auto", help="default: auto")
    meaning.add_argument(
        "--base", metavar="IRI", help="resolve the relative IRIs of the query against this IRI, like BASE in its text"
    )
    meaning.add_argument("--profile", choices=dialects.names(), help="default: the dialect's own")
    meaning.add_argument(
        "--report",
        action="append",
        type=_type(parse_report),
        default=[],
        metavar="[NAME=]cc|wc|nc|p:DUR,...",
        help="report policies: content change, window close, non-empty content, periodic",
    )
    meaning.add_argument("--output-operator", choices=("istream", "dstream", "rstream", *plugins.names("stream_operators")))
    meaning.add_argument("--duplicates", choices=("set", "bag"))
    meaning.add_argument("--bounds", choices=("open-closed", "closed-open"))
    meaning.add_argument(
        "--t0", action="append", type=_type(parse_t0), default=[], metavar="[NAME=]MS", help="the origin of the windows"
    )

    order = parser.add_argument_group("order and lateness")
    order.add_argument(
        "--lateness", type=_type(parse_duration), default=0, metavar="DUR", help="how late an element may be (default: 0)"
    )
    order.add_argument(
        "--idle-timeout",
        type=_type(parse_positive_duration),
        metavar="DUR",
        help="stop waiting for a stream that is idle for DUR (default: never)",
    )
    order.add_argument(
        "--max-ahead", type=_type(parse_positive_duration), metavar="DUR",
        help="with a live source: reject an element further ahead of its predecessors than DUR (default: none)",
    )  # fmt: skip
    order.add_argument(
        "--eager",
        action="store_true",
        help="finalize the greatest time at once: for sources whose batches never split an instant",
    )
    order.add_argument("--drain", action="store_true", help="at the end of the input, continue until all windows are empty")

    how = parser.add_argument_group("how it runs (never changes answers)")
    how.add_argument(
        "--plan", type=_type(parse_plan), default=("adaptive", None), metavar="POLICY",
        help="adaptive (default), first, static, worst, spark or fixed:PLANS",
    )  # fmt: skip
    how.add_argument("--joins", choices=(*JOINS, *plugins.names("join_methods")), default="auto", help="default: auto")
    how.add_argument(
        "--filters", choices=FILTERS, default="cost",
        help="placement of filters among the joins: cost (default), early, late (those on probabilities), or heuristics H1 to H4",
    )  # fmt: skip
    how.add_argument(
        "--cost-model", choices=(*COST_MODELS, *plugins.names("cost_models")), default="default",
        help="default, paper (the cost functions of the CQELS report), or one that an installed package adds",
    )  # fmt: skip
    how.add_argument(
        "--constants", choices=CONSTANTS, default="measured",
        help="of the default cost model: measured by `calibrate`, where it was run, or the committed defaults",
    )  # fmt: skip
    how.add_argument(
        "--sub-result-bytes",
        type=_type(parse_bytes),
        metavar="SIZE",
        help="limit of the sub-results (materialized static joins) per block (4G)",
    )
    how.add_argument(
        "--batch", type=_type(parse_batch), metavar="N|DUR", help="elements, or stream time, per micro-batch of a replay"
    )
    how.add_argument(
        "--batch-bytes", type=_type(parse_bytes), metavar="SIZE", help="new files of a live folder per micro-batch (64M)"
    )
    limits = parser.add_argument_group("limits per query and micro-batch: a query that exceeds one ends, and the others continue")
    limits.add_argument("--max-rows", type=_type(_positive), metavar="N", help="number of answers (default: no limit)")
    limits.add_argument("--max-time", type=_type(parse_positive_duration), metavar="DUR", help="time (default: no limit)")
    limits.add_argument("--max-state", type=_type(_positive_bytes), metavar="SIZE", help="state on disk (default: no limit)")
    limits.add_argument(
        "--max-memory", type=_type(_positive_bytes), metavar="SIZE",
        help="rows of one result in the memory of a task (default: a quarter of the machine's memory)",
    )  # fmt: skip
    how.add_argument(
        "--engine", choices=("spark", "local"), default="spark",
        help="Spark, or this process without Java (default: spark); a checkpoint moves from one to the other",
    )  # fmt: skip
    how.add_argument("--checkpoint", metavar="DIR", help="the folder from which the same command resumes")
    how.add_argument("--continue-changed", action="store_true", help="resume with a changed query over the same windows")
    how.add_argument("--trace", metavar="FILE.jsonl", help="write one record per query and micro-batch")
    how.add_argument(
        "--out", default="-", metavar="FILE|DIR/|TOPIC|-",
        help="the answers: one JSON object per line (default: standard output), a folder with Parquet files per batch, "
             "or kafka://host:port/topic",
    )  # fmt: skip
    how.add_argument(
        "--out-payload",
        choices=ANSWER_PAYLOADS,
        metavar="answers|json|nq",
        help="payload of messages with answers (default: answers)",
    )
    how.add_argument(
        "--packages",
        metavar="COORDINATES",
        help="packages that Spark loads for Kafka (default: its connector; none: already installed)",
    )
    _master_argument(how)


def _ui_argument(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--ui", type=_type(parse_address), metavar="[HOST:]PORT", help=what)


def _graph_argument(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--graph", nargs=2, action="append", default=[], metavar=("IRI", "PATH"), help="static data of a named graph"
    )


def _on_error_argument(parser: argparse._ActionsContainer, what: str, default: str | None = "fail") -> None:
    parser.add_argument("--on-error", choices=("fail", "skip"), default=default, help=what)


def _master_argument(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--master", metavar="URL", help="the Spark master (default: this machine)")


def _type(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Adapts a parser of values to argparse."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except InputError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parsed


def _batch_number(text: str) -> int:
    if not text.isdecimal():
        raise InputError(f"{text!r} is no number of a micro-batch: write 0 or more")
    return int(text)


def _batch_count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise InputError(f"{text!r} is no number of micro-batches: write 1 or more")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise InputError(f"{text!r} is no number of rows: write 1 or more")
    return int(text)


def _positive_bytes(text: str) -> int:
    if (size := parse_bytes(text)) == 0:
        raise InputError(f"{text!r} is no size: a limit is at least 1 byte")
    return size


def _days(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 365:
        raise InputError(f"{text!r} is no number of days from 1 to 365")
    return int(text)
