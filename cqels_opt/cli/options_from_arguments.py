"""Converts the parsed command line to the options of its command, and checks combinations."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from cqels_opt import plugins
from cqels_opt.cli.input_files import (
    existing,
    existing_file,
    existing_folder,
    existing_store,
    new_file,
    new_folder,
    new_state,
    new_store,
)
from cqels_opt.cli.options import (
    BenchOptions,
    CalibrateOptions,
    DemoOptions,
    ExplainOptions,
    GatewayOptions,
    LoadOptions,
    RunOptions,
    TraceOptions,
    UpdateOptions,
    parse_iri,
)
from cqels_opt.errors import InputError
from cqels_opt.spark.kafka_topic import ANSWERS, SCHEME, KafkaTopic, parse_topic

T = TypeVar("T")


def run_options(words: argparse.Namespace) -> RunOptions:
    """The options of `run`, `explain` and `verify`; raises InputError for wrong combinations or missing files."""
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
        base=parse_iri(words.base) if words.base is not None else None,
        profile=words.profile,
        report=_by_window("--report", words.report),
        output_operator=words.output_operator,
        duplicates=words.duplicates,
        bounds=words.bounds,
        t0=_by_window("--t0", words.t0),
        lateness=words.lateness,
        idle_timeout=words.idle_timeout,
        max_ahead=words.max_ahead,
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
        engine=words.engine,
        master=words.master,
        debug=words.debug,
        max_rows=words.max_rows,
        max_time=words.max_time,
        max_state=words.max_state,
        max_memory=words.max_memory,
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
    if options.batch_bytes is not None and options.topics:
        raise InputError("--batch-bytes: it is for live folders; of a topic Python takes options={'maxOffsetsPerTrigger': …}")
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
    for option, given in (("--at", words.at), ("--every", words.every)):
        if given is not None and not words.analyze:
            raise InputError(f"{option} names micro-batches of a run: add --analyze")
    for option, given in (("--to", words.to), ("--void", void)):
        if given is not None and words.analyze:
            raise InputError(f"--analyze runs the query, and {option} does not: leave one of them out")
    return ExplainOptions(run_options(words), words.format, words.all, words.to, void, words.analyze, words.at, words.every)


def update_options(words: argparse.Namespace) -> UpdateOptions | None:
    """The options of `load --update`; None for a plain load."""
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
    """The options of `trace`. A followed file need not exist yet."""
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
    compare = existing_file(words.compare, "--compare") if words.compare is not None else None
    if compare and html is None:
        raise InputError("--compare: two traces are compared on a page: add --html OUT.html")
    if compare and html and html.resolve() == compare.resolve():
        raise InputError(f"--html {html}: the file is given twice, and would be overwritten")
    return TraceOptions(file, html, words.follow, words.ui, compare)


def bench_options(words: argparse.Namespace) -> BenchOptions:
    """The options of `bench`."""
    json, html, page = (
        new_file(text, option) if text is not None else None
        for option, text in (("--json", words.json), ("--html", words.html), ("--page", words.page))
    )
    added = plugins.names("contenders")
    return BenchOptions(
        scenarios=tuple(words.scenarios),
        list=words.list,
        quick=words.quick,
        json=json,
        html=html,
        page=page,
        contenders=tuple(one if one in added else existing(one, "--contender") for one in words.contender),
        spark=not words.no_spark,
        keep=new_folder(words.keep, "--keep") if words.keep is not None else None,
        jobs=tuple(words.job),
        data=existing_folder(words.data, "--data") if words.data is not None else None,
        debug=words.debug,
    )


def demo_options(words: argparse.Namespace) -> DemoOptions:
    """The options of `demo`."""
    days = None if words.all else words.days or DemoOptions().days
    return DemoOptions(days, new_folder(words.out, "--out"), words.engine, words.verbose, words.debug)


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
