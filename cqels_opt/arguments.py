"""The command line's grammar: from words to options, and one line about what is wrong with them.

argparse does the reading. Its errors become :class:`InputError`, so that wrong usage is one line on standard error like any
other wrong input, without the usage text.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, TypeVar

from cqels_opt.errors import InputError
from cqels_opt.lod.places import place_of, state_folder
from cqels_opt.options import (
    CONSTANTS,
    COST_MODELS,
    DIALECTS,
    FILTERS,
    JOINS,
    PROFILES,
    TIME_PREDICATE,
    BenchOptions,
    CalibrateOptions,
    DemoOptions,
    ExplainOptions,
    GatewayOptions,
    LoadOptions,
    RunOptions,
    TraceOptions,
    UpdateOptions,
    parse_address,
    parse_batch,
    parse_bytes,
    parse_duration,
    parse_iri,
    parse_plan,
    parse_positive_duration,
    parse_report,
    parse_t0,
)
from cqels_opt.topics import ANSWERS, GIVEN_OUT, SCHEME, KafkaTopic, parse_topic

T = TypeVar("T")
_PAYLOAD = "json (rows of s p o t, the default), nt, ttl, nq, trig, jsonld, or a mapping of columns to triples"
Subparsers: TypeAlias = "argparse._SubParsersAction[_Parser]"


class _Parser(argparse.ArgumentParser):
    """argparse with errors as exceptions, and without guessing at shortened options."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**{**keywords, "allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{self.prog}: {message}")


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands; what it returns has ``command`` and the command's own words."""
    parser = _Parser(prog="cqels-opt", description="Continuous SPARQL over RDF streams and Linked Open Data, on Spark.")
    parser.add_argument("--version", action="version", version=f"cqels-opt {version('cqels-opt')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, title="commands")

    run = _command(commands, "run", "run a continuous query over streams and static data")
    _query_arguments(run)
    _ui_argument(run, "show the trace as a page while it runs, and metrics for Prometheus at /metrics (0: any free port)")

    explain = _command(commands, "explain", "show the plans with their estimates, without running")
    _query_arguments(explain)
    explain.add_argument("--format", choices=("text", "json", "dot"), default="text", help="default: text")
    explain.add_argument(
        "--to", choices=DIALECTS[1:], metavar="DIALECT", help="the query in another dialect instead of its plans"
    )
    explain.add_argument(
        "--void",
        metavar="FILE",
        help="a VoID description of the static data: plans without the data, or is it still right about them?",
    )
    explain.add_argument("--all", action="store_true", help="every retained alternative, not only the cheapest")

    verify = _command(commands, "verify", "run, and compare every answer with an independent evaluation")
    _query_arguments(verify)

    load = _command(commands, "load", "load static data into a store, or update one while queries read it")
    load.add_argument("paths", nargs="*", metavar="PATH", help="files for the default graph")
    target = load.add_mutually_exclusive_group(required=True)
    target.add_argument("--store", metavar="DIR|URI", help="the folder of the store, or its place in an object store")
    target.add_argument("--update", metavar="DIR", help="a store that is there: make its next version, with --add and --remove")
    load.add_argument("--add", action="append", default=[], metavar="PATH", help="with --update: triples (quads) that come")
    load.add_argument(
        "--remove", action="append", default=[], metavar="PATH", help="with --update: triples (quads) that go, first"
    )
    _graph_argument(load)
    _on_error_argument(load, "what a bad line does (default: fail)")
    _master_argument(load)

    store = _command(commands, "store", "look at a store, check that it is whole, or describe it in VoID")
    store.add_argument("action", choices=("info", "check", "void"), metavar="info|check|void")
    store.add_argument("store", metavar="DIR|URI")

    trace = _command(commands, "trace", "what a trace file says: plans, switches and why, slow batches")
    trace.add_argument("trace", metavar="FILE.jsonl")
    trace.add_argument("--html", metavar="OUT.html", help="write a self-contained page instead")
    trace.add_argument("--follow", action="store_true", help="the file of a running job: show what comes, until Ctrl-C")
    _ui_argument(trace, "with --follow: show it as a page too")

    calibrate = _command(commands, "calibrate", "measure on this machine what the cost model counts, for later runs")
    calibrate.add_argument("--show", action="store_true", help="only show the constants in use, and where they come from")
    calibrate.add_argument("--no-spark", action="store_true", help="only what needs no Spark (two seconds)")
    _master_argument(calibrate)

    gateway = _command(commands, "gateway", "write messages of MQTT, a WebSocket or Server-Sent Events into a live folder")
    gateway.add_argument("url", metavar="URL", help="mqtt://host:port/topic, ws://host:port/path or http://host:port/path")
    gateway.add_argument("folder", metavar="DIR", help="the live folder, which `run --stream IRI DIR` follows")
    gateway.add_argument("--payload", default="json", metavar="FORMAT|FILE.toml", help=_PAYLOAD)
    gateway.add_argument(
        "--time-predicate", type=_type(parse_iri), default=TIME_PREDICATE, metavar="IRI", help="of RDF payloads (default: prov)"
    )
    gateway.add_argument(
        "--every", type=_type(parse_positive_duration), default=1000, metavar="DUR", help="a file at most so often (default: 1s)"
    )
    gateway.add_argument("--refused", metavar="FILE.jsonl", help="where bad messages are kept (default: DIR/_refused.jsonl)")
    gateway.add_argument("--client", default="", metavar="NAME", help="the name that an MQTT broker knows this gateway by")
    gateway.add_argument("--send", metavar="TEXT", help="what a WebSocket server wants to hear first")

    bench = _command(commands, "bench", "run scenarios of the benchmark harness")
    bench.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", help="a name of --list, or a file my.toml (default: evaluation)"
    )
    bench.add_argument("--list", action="store_true", help="list the scenarios and the contenders")
    bench.add_argument("--quick", action="store_true", help="at small scale")
    bench.add_argument("--json", metavar="OUT", help="write the figures as JSON")
    bench.add_argument("--html", metavar="OUT", help="write figures and pictures as one page that needs no network")
    bench.add_argument("--page", metavar="OUT.md", help="of evaluation: write its page in Markdown")
    bench.add_argument(
        "--contender",
        action="append",
        default=[],
        metavar="FILE",
        help="one more contender: a Python or TOML file; may be repeated",
    )

    bench.add_argument("--no-spark", action="store_true", help="leave out the contenders of scenarios that need Spark")
    bench.add_argument(
        "--keep",
        metavar="DIR",
        help="keep each report when it is done, and take those that are there, of this commit and these options",
    )

    demo = _command(commands, "demo", "two continuous queries over the departures and the weather of New York's airports in 2013")
    days = demo.add_mutually_exclusive_group()
    days.add_argument(
        "--days", type=_type(_days), metavar="N", help="days from 7 February 2013, before the blizzard (default: 3)"
    )
    days.add_argument("--all", action="store_true", help="the whole year")
    demo.add_argument(
        "--out", default=str(DemoOptions().out), metavar="DIR", help="for answers, traces and pages (default: demo-out)"
    )
    return parser


def _command(commands: Subparsers, name: str, what: str) -> _Parser:
    command = commands.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".")
    command.add_argument("--debug", action="store_true", help="show the stack trace of an error")
    return command


def _query_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", nargs="+", metavar="QUERY.rq", help="the file with the query; several run as one job")

    parser.add_argument(
        "--instances", metavar="FILE.csv",
        help="one query many times: its text has $NAME$ where each row of this file has its own value of the column NAME",
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
    inputs.add_argument("--payload", action="append", default=[], metavar="[IRI=]FORMAT|FILE.toml", help=f"of topics: {_PAYLOAD}")
    inputs.add_argument("--static", action="append", default=[], metavar="PATH", help="static data of the default graph")
    _graph_argument(inputs)
    inputs.add_argument(
        "--store", metavar="DIR|URI", help="a store that `load` wrote: a folder, or s3://BUCKET/PREFIX and the like"
    )
    inputs.add_argument("--follow", action="store_true", help="the streams are live, as folders are anyway")
    inputs.add_argument(
        "--time-predicate", type=_type(parse_iri), default=TIME_PREDICATE, metavar="IRI", help="of graph streams (default: prov)"
    )
    _on_error_argument(inputs, "what a bad line does (default: fail; skip for a live source)", default=None)

    meaning = parser.add_argument_group("what the answers are")
    meaning.add_argument("--dialect", choices=DIALECTS, default="auto", help="default: auto")
    meaning.add_argument("--profile", choices=PROFILES, help="default: the dialect's own")
    meaning.add_argument(
        "--report",
        action="append",
        type=_type(parse_report),
        default=[],
        metavar="[NAME=]cc|wc|nc|p:DUR,...",
        help="when to report",
    )
    meaning.add_argument("--output-operator", choices=("istream", "dstream", "rstream"))
    meaning.add_argument("--duplicates", choices=("set", "bag"))
    meaning.add_argument("--bounds", choices=("open-closed", "closed-open"))
    meaning.add_argument(
        "--t0", action="append", type=_type(parse_t0), default=[], metavar="[NAME=]MS", help="where windows begin"
    )

    order = parser.add_argument_group("order and lateness")
    order.add_argument(
        "--lateness", type=_type(parse_duration), default=0, metavar="DUR", help="how late an element may be (default: 0)"
    )
    order.add_argument(
        "--idle-timeout", type=_type(parse_positive_duration), metavar="DUR", help="let an idle stream go (default: never)"
    )
    order.add_argument("--eager", action="store_true", help="batches never split an instant: finalise the greatest time at once")
    order.add_argument("--drain", action="store_true", help="at the end of the input, go on until all windows are empty")

    how = parser.add_argument_group("how it runs (never changes answers)")
    how.add_argument(
        "--plan", type=_type(parse_plan), default=("adaptive", None), metavar="POLICY",
        help="adaptive (default), first, static, worst, spark or fixed:PLANS",
    )  # fmt: skip
    how.add_argument("--joins", choices=JOINS, default="auto", help="default: auto")
    how.add_argument(
        "--filters", choices=FILTERS, default="cost",
        help="where filters stand among the joins: by cost (default), early, late (those on probabilities), or heuristics H1 to H4",
    )  # fmt: skip
    how.add_argument(
        "--cost-model", choices=COST_MODELS, default="default", help="default, or paper: the cost functions of the CQELS report"
    )
    how.add_argument(
        "--constants", choices=CONSTANTS, default="measured",
        help="of the default cost model: those that `calibrate` measured, if it did, or the committed defaults",
    )  # fmt: skip
    how.add_argument(
        "--sub-result-bytes", type=_type(parse_bytes), metavar="SIZE", help="most that joins computed beforehand may take (4G)"
    )
    how.add_argument("--batch", type=_type(parse_batch), metavar="N|DUR", help="elements, or stream time, of a micro-batch")
    how.add_argument(
        "--batch-bytes", type=_type(parse_bytes), metavar="SIZE", help="new files of a live folder that a micro-batch takes (64M)"
    )
    how.add_argument("--checkpoint", metavar="DIR", help="where a run is taken up again")
    how.add_argument(
        "--continue-changed", action="store_true", help="the checkpoint's query may be another one, over the same windows"
    )
    how.add_argument("--trace", metavar="FILE.jsonl", help="a record of every micro-batch")
    how.add_argument(
        "--out", default="-", metavar="FILE|DIR/|TOPIC|-",
        help="the answers: a JSON object a line (default: standard output), a folder of Parquet files, a batch each, "
             "or kafka://host:port/topic",
    )  # fmt: skip
    how.add_argument(
        "--out-payload", choices=GIVEN_OUT, metavar="answers|json|nq", help="what messages of answers hold (default: answers)"
    )
    how.add_argument(
        "--packages",
        metavar="COORDINATES",
        help="what Spark loads for Kafka (default: its connector; none: it has one)",
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
    """A parser of values as argparse wants one."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except InputError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parsed


def _days(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 365:
        raise InputError(f"{text!r} is no number of days from 1 to 365")
    return int(text)


# ------------------------------------------------------------------ from words to options
def run_options(words: argparse.Namespace) -> RunOptions:
    """The options of `run`, `explain` and `verify`; raises InputError where they do not fit together or a file is absent."""
    plan, fixed = words.plan
    options = RunOptions(
        query=existing_file(words.query[0], "the query"),
        more=tuple(existing_file(path, "the query") for path in words.query[1:]),
        streams=_named("--stream", [pair for pair in words.stream if not pair[1].startswith(SCHEME)]),
        topics=_topics(words),
        out_topic=_out_topic(words),
        packages=words.packages,
        static=tuple(existing(path, "--static") for path in words.static),
        graphs=_named("--graph", words.graph),
        store=existing_store(words.store, "--store") if words.store is not None else None,
        dialect=words.dialect,
        profile=words.profile,
        report=_by_window("--report", words.report),
        output_operator=words.output_operator,
        duplicates=words.duplicates,
        bounds=words.bounds,
        t0=_by_window("--t0", words.t0),
        lateness=words.lateness,
        idle_timeout=words.idle_timeout,
        eager=words.eager,
        drain=words.drain,
        on_error=words.on_error,
        time_predicate=words.time_predicate,
        plan=plan,
        fixed=fixed,
        joins=words.joins,
        cost_model=words.cost_model,
        constants=words.constants,
        filters=words.filters,
        sub_result_bytes=words.sub_result_bytes,
        instances=Path(words.instances) if words.instances is not None else None,
        batch=words.batch,
        batch_bytes=words.batch_bytes,
        checkpoint=new_state(words.checkpoint, "--checkpoint") if words.checkpoint is not None else None,
        continue_changed=words.continue_changed,
        trace=new_file(words.trace, "--trace") if words.trace is not None else None,
        out=None if words.out.startswith(SCHEME) else _out(words.out),
        out_folder=not words.out.startswith(SCHEME) and _is_folder(words.out),
        follow=words.follow,
        ui=getattr(words, "ui", None),
        master=words.master,
        debug=words.debug,
    )
    _check_together(options)
    return options


def _check_together(options: RunOptions) -> None:
    live = options.follow or bool(options.topics) or any(path.is_dir() for _, path in options.streams)
    if options.topics and options.streams:
        raise InputError("--stream: topics cannot be mixed with files or folders in one run; give a topic for each stream")
    if options.plan == "spark" and options.joins != "auto":
        raise InputError("--joins: --plan spark leaves the joins to Spark; leave one of the two out")
    if options.filters.startswith("H") and options.plan != "adaptive":
        raise InputError(
            f"--filters {options.filters} orders the joins as well: leave --plan out, or take --filters early or late"
        )
    if options.filters != "cost" and options.plan in ("spark", "fixed"):
        raise InputError(
            f"--filters {options.filters}: --plan {options.plan} has its own places for filters; leave one of the two out"
        )
    if options.batch_bytes is not None and not live:
        raise InputError("--batch-bytes: it is for live folders; say with --batch how much of a replay a micro-batch takes")
    if options.batch_bytes == 0:
        raise InputError("--batch-bytes: a micro-batch takes at least 1 byte")
    if options.drain and live:
        raise InputError("--drain: a live source (--follow, or a folder) has no end after which windows could be drained")
    inputs = [*options.queries, *options.static, *(path for _, path in (*options.streams, *options.graphs))]
    outputs = [("--trace", options.trace), ("--out", options.out)]
    for number, (option, path) in enumerate(outputs):
        others = [*inputs, *(other for _, other in outputs[:number] if other)]
        if path and any(path.resolve() == other.resolve() for other in others):
            raise InputError(f"{option} {path}: the file is given twice, and would be overwritten")


def _topics(words: argparse.Namespace) -> tuple[tuple[str, KafkaTopic], ...]:
    """The streams that are topics, each with its payload."""
    from cqels_opt.rdf.payloads import payload_of

    payloads: dict[str, str] = {}
    for text in words.payload:
        iri, _, payload = text.rpartition("=")
        payloads[parse_iri(iri) if iri else ""] = payload
    found = []
    for iri, place in words.stream:
        if place.startswith(SCHEME):
            name = parse_iri(iri)
            payload = payload_of(payloads.pop(name, payloads.get("", "json")), words.time_predicate)
            found.append((name, parse_topic(place, payload)))
    if unused := [iri for iri in payloads if iri or not found]:
        raise InputError(f"--payload {unused[0]}: no stream is a topic{' of that name' if unused[0] else ''}".replace(" :", ":"))
    return tuple(found)


def _out_topic(words: argparse.Namespace) -> KafkaTopic | None:
    if not words.out.startswith(SCHEME):
        if words.out_payload is not None:
            raise InputError("--out-payload: it is for answers that go to a topic (--out kafka://host:port/topic)")
        return None
    return parse_topic(words.out, words.out_payload or ANSWERS)


def _is_folder(out: str) -> bool:
    return out.endswith("/") or Path(out).is_dir()


def _out(text: str) -> Path | None:
    if text == "-":
        return None
    return new_folder(text, "--out") if _is_folder(text) else new_file(text, "--out")


def explain_options(words: argparse.Namespace) -> ExplainOptions:
    """The options of `explain`."""
    void = existing_file(words.void, "--void") if words.void is not None else None
    return ExplainOptions(run_options(words), words.format, words.all, words.to, void)


def update_options(words: argparse.Namespace) -> UpdateOptions | None:
    """The options of `load --update`; None where it is a load."""
    if words.update is None:
        if words.add or words.remove:
            raise InputError("cqels-opt load: --add and --remove are of an update: name the store with --update, not --store")
        return None
    if words.paths:
        raise InputError(f"cqels-opt load --update: {words.paths[0]}: say with --add or --remove whether it comes or goes")
    if not (words.add or words.remove or words.graph):
        raise InputError("cqels-opt load --update: nothing to do: name files with --add, --remove, or --graph IRI PATH")
    return UpdateOptions(
        store=existing_store(words.update, "--update"),
        add=tuple(existing(path, "--add") for path in words.add),
        remove=tuple(existing(path, "--remove") for path in words.remove),
        graphs=_named("--graph", words.graph),
        on_error=words.on_error,
        debug=words.debug,
    )


def load_options(words: argparse.Namespace) -> LoadOptions:
    """The options of `load`."""
    if not words.paths and not words.graph:
        raise InputError("cqels-opt load: nothing to load: name files, or --graph IRI PATH")
    return LoadOptions(
        store=new_store(words.store, "--store"),
        paths=tuple(existing(path, "load") for path in words.paths),
        graphs=_named("--graph", words.graph),
        on_error=words.on_error,
        master=words.master,
        debug=words.debug,
    )


def gateway_options(words: argparse.Namespace) -> GatewayOptions:
    """The options of `gateway`."""
    return GatewayOptions(
        words.url,
        new_folder(words.folder, "gateway"),
        words.payload,
        words.every,
        new_file(words.refused, "--refused") if words.refused is not None else None,
        words.client,
        words.send,
        words.time_predicate,
        words.debug,
    )


def calibrate_options(words: argparse.Namespace) -> CalibrateOptions:
    """The options of `calibrate`."""
    return CalibrateOptions(words.show, not words.no_spark, words.master, words.debug)


def trace_options(words: argparse.Namespace) -> TraceOptions:
    """The options of `trace`. A file that is followed need not be there yet."""
    file = new_file(words.trace, "trace") if words.follow else existing_file(words.trace, "trace")
    html = new_file(words.html, "--html") if words.html is not None else None
    if html and words.follow:
        raise InputError(
            "--html: a page is written of what is there; leave --follow out, or give --ui PORT for a page that follows"
        )
    if words.ui and not words.follow:
        raise InputError("--ui: it is for a trace that grows: add --follow, or write a page with --html OUT.html")
    if html and html.resolve() == file.resolve():
        raise InputError(f"--html {html}: the file is given twice, and would be overwritten")
    return TraceOptions(file, html, words.follow, words.ui)


def bench_options(words: argparse.Namespace) -> BenchOptions:
    """The options of `bench`."""
    json, html, page = (
        new_file(text, option) if text is not None else None
        for option, text in (("--json", words.json), ("--html", words.html), ("--page", words.page))
    )
    contenders = tuple(existing(path, "--contender") for path in words.contender)
    keep = new_folder(words.keep, "--keep") if words.keep is not None else None
    return BenchOptions(
        tuple(words.scenarios), words.list, words.quick, json, html, page, contenders, not words.no_spark, keep, words.debug
    )


def demo_options(words: argparse.Namespace) -> DemoOptions:
    """The options of `demo`."""
    days = None if words.all else words.days or DemoOptions().days
    return DemoOptions(days, new_folder(words.out, "--out"), words.debug)


def _named(option: str, pairs: Iterable[Sequence[str]]) -> tuple[tuple[str, Path], ...]:
    named = []
    for iri, path in pairs:
        try:
            named.append((parse_iri(iri), existing(path, f"{option} {iri}")))
        except InputError as error:
            raise error if str(error).startswith(option) else InputError(f"{option}: {error}") from error
    return tuple(named)


def _by_window(option: str, pairs: Iterable[tuple[str, T]]) -> dict[str, T]:
    found: dict[str, T] = {}
    for name, value in pairs:
        if name in found:
            raise InputError(f"{option}: it is given twice for {f'the window {name}' if name else 'all windows'}")
        found[name] = value
    return found


# ------------------------------------------------------------------ files
def existing(text: str, what: str) -> Path:
    """A file or folder that is there and may be read."""
    path = Path(text)
    try:
        path.stat()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{what}: {text}: {reason}") from error
    return path


def existing_file(text: str, what: str) -> Path:
    """A file that is there; a folder is not one."""
    path = existing(text, what)
    if path.is_dir():
        raise InputError(f"{what}: {text}: it is a folder; a file is expected")
    return path


def existing_folder(text: str, what: str) -> Path:
    """A folder that is there."""
    path = existing(text, what)
    if not path.is_dir():
        raise InputError(f"{what}: {text}: it is a file; a folder is expected")
    return path


def new_file(text: str, what: str) -> Path:
    """A file that may be written: its folder is there."""
    path = Path(text)
    if path.is_dir():
        raise InputError(f"{what}: {text}: it is a folder; a file is expected")
    if not path.parent.is_dir():
        raise InputError(f"{what}: {text}: there is no folder {path.parent}")
    return path


def new_folder(text: str, what: str) -> Path:
    """A folder that is there or may be made."""
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise InputError(f"{what}: {text}: it is a file; a folder is expected")
    return path


def existing_store(text: str, what: str) -> Path | str:
    """A store: a folder that is there, or a URI, which is looked at when the store is opened."""
    place = place_of(text)
    return place if isinstance(place, str) else existing_folder(str(place), what)


def new_store(text: str, what: str) -> Path | str:
    """Where a store may be written: a folder, or a URI."""
    place = place_of(text)
    return place if isinstance(place, str) else new_folder(str(place), what)


def new_state(text: str, what: str) -> Path:
    """A folder for the state of a run, that is there or may be made."""
    return new_folder(str(state_folder(text, what)), what)
