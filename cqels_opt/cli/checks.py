"""Options that depend on each other: combinations that have no meaning, and values that two options define together."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cqels_opt.cli.input_files import check_outputs, check_page, existing_file, new_file
from cqels_opt.cli.options import (
    TIME_PREDICATE,
    CheckOptions,
    ConvertOptions,
    DemoOptions,
    ExplainOptions,
    LoadOptions,
    RunOptions,
    TraceOptions,
    UpdateOptions,
)
from cqels_opt.cli.values import parse_iri
from cqels_opt.errors import InputError
from cqels_opt.spark.kafka_topic import ANSWERS, SCHEME, KafkaTopic, parse_topic

STANDARD_INPUT = Path("-")


def make_run(
    *,
    query: Sequence[Path] = (),
    text: str | None = None,
    streams: Sequence[tuple[str, Any]] = (),
    payload: Sequence[str] = (),
    plan: tuple[Any, str | None] = ("adaptive", None),
    out: Path | str | None = None,
    out_payload: str | None = None,
    **rest: Any,
) -> RunOptions:
    """The options of `run` and `verify`; InputError for wrong combinations."""
    to_topic, to_folder = str(out).startswith(SCHEME), str(out).endswith("/")
    if out_payload is not None and not to_topic:
        raise InputError("--out-payload: it is for answers that go to a topic (--out kafka://host:port/topic)")
    if text is not None and query:
        raise InputError(f"-e: the query is given twice, as text and as the file {query[0]}: leave one of the two out")
    if len(query) > 1 and STANDARD_INPUT in query:
        raise InputError("-: standard input is one query: leave the other files out")
    if tuple(query) == (STANDARD_INPUT,):
        text, query = sys.stdin.read(), [Path("stdin")]
    options = RunOptions(
        query=query[0] if query else Path("query"),
        text=text,
        more=tuple(query[1:]),
        streams=tuple((iri, place) for iri, place in streams if isinstance(place, Path)),
        topics=_topics(streams, payload, rest.get("time_predicate", TIME_PREDICATE)),
        plan=plan[0],
        fixed=plan[1],
        out=None if out is None or to_topic else Path(out),
        out_folder=to_folder,
        out_topic=parse_topic(str(out), out_payload or ANSWERS) if to_topic else None,
        **rest,
    )
    _check_together(options)
    return options


def _check_together(options: RunOptions) -> None:
    live = options.follow or bool(options.topics) or any(path.is_dir() for _, path in options.streams)
    if options.topics and options.streams:
        raise InputError("--stream: topics cannot be mixed with files or folders in one run; give a topic for each stream")
    if options.processes is not None and options.engine == "spark":
        raise InputError("--processes: on Spark, executors run the tasks; give --master 'local[N]', or --engine local")
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
    if options.continue_changed and options.checkpoint is None:
        raise InputError("--continue-changed: it resumes from a checkpoint: give --checkpoint")
    if options.drain and live:
        raise InputError("--drain: a live source (--follow, or a folder) has no end after which windows could be drained")
    inputs = [
        *(options.queries if options.text is None else ()),
        *options.static,
        *(path for _, path in (*options.streams, *options.graphs)),
    ]
    check_outputs([("--trace", options.trace), ("--out", options.out)], inputs)
    if options.trace is not None and str(options.trace) == "-":
        raise InputError("--trace -: a trace is a file, which its run continues: name one")
    if isinstance(options.checkpoint, Path) and options.out is not None and options.out.resolve() == options.checkpoint.resolve():
        raise InputError(f"--out {options.out}: it is the folder of the checkpoint: name another one")


def _topics(streams: Sequence[tuple[str, Any]], payload: Sequence[str], predicate: str) -> tuple[tuple[str, KafkaTopic], ...]:
    """The streams that are topics, each with its payload."""
    from cqels_opt.rdf.payloads import payload_of

    payloads: dict[str, str] = {}
    for text in payload:
        iri, _, name = text.rpartition("=")
        payloads[parse_iri(iri) if iri else ""] = name
    found = [
        (iri, parse_topic(place, payload_of(payloads.pop(iri, payloads.get("", "json")), predicate)))
        for iri, place in streams
        if not isinstance(place, Path)
    ]
    names = [iri for iri, _ in found]
    if twice := [iri for iri in names if names.count(iri) > 1]:
        raise InputError(f"--stream {twice[0]}: the stream is given more than one topic; give it one")
    if unused := [iri for iri in payloads if iri or not found]:
        raise InputError(f"--payload {unused[0]}: no stream is a topic{' of that name' if unused[0] else ''}".replace(" :", ":"))
    return tuple(found)


def make_explain(
    *,
    format: Any = "text",
    all: bool = False,
    void: Path | None = None,
    analyze: bool = False,
    at: int | None = None,
    every: int | None = None,
    **run: Any,
) -> ExplainOptions:
    """The options of `explain`."""
    for option, given in (("--at", at), ("--every", every)):
        if given is not None and not analyze:
            raise InputError(f"{option} names micro-batches of a run: add --analyze")
    if at is not None and every is not None:
        raise InputError("--at and --every: leave one of the two out")
    if void is not None and analyze:
        raise InputError("--analyze runs the query, and --void does not: leave one of them out")
    return ExplainOptions(make_run(**run), format, all, void, analyze, at, every)


def make_check(**run: Any) -> CheckOptions:
    """The options of `check`."""
    return CheckOptions(make_run(**run))


def make_convert(*, to: str, **run: Any) -> ConvertOptions:
    """The options of `convert`."""
    return ConvertOptions(make_run(**run), to)


def make_load(**words: Any) -> LoadOptions | UpdateOptions:
    """The options of `load`, or of `load --update`."""
    if ("store" in words) == ("update" in words):
        wanted = "--store DIR writes a store, --update DIR changes one"
        raise InputError(f"cqels-opt load: {'give one of the two' if 'store' in words else 'where to'}: {wanted}")
    if "store" in words:
        if "add" in words or "remove" in words:
            raise InputError("cqels-opt load: --add and --remove are of an update: name the store with --update, not --store")
        if not words.get("paths") and "graphs" not in words:
            raise InputError("cqels-opt load: nothing to load: name files, or --graph IRI PATH")
        if words.get("engine") == "local" and "master" in words:
            raise InputError("--master needs Spark; leave out --engine local, or --master")
        return LoadOptions(**words)
    if paths := words.pop("paths", ()):
        raise InputError(f"cqels-opt load --update: {paths[0]}: say with --add or --remove whether it comes or goes")
    if not words.keys() & {"add", "remove", "graphs"}:
        raise InputError("cqels-opt load --update: nothing to do: name files with --add, --remove, or --graph IRI PATH")
    for spark in ("master", "engine"):  # an update needs no Spark
        words.pop(spark, None)
    return UpdateOptions(words.pop("update"), **words)


def make_trace(*, file: str, html: Path | None = None, follow: bool = False, **rest: Any) -> TraceOptions:
    """The options of `trace`. A followed file need not exist yet."""
    path = new_file(file, "trace") if follow else existing_file(file, "trace")
    if html and follow:
        raise InputError(
            "--html: a page is written of what is there; leave --follow out, or give --ui PORT for a page that follows"
        )
    if rest.get("ui") and not follow:
        raise InputError("--ui: it is for a trace that grows: add --follow, or write a page with --html OUT.html")
    check_outputs([("--html", html)], [path, rest.get("compare")])
    if rest.get("compare") and html is None:
        raise InputError("--compare: two traces are compared on a page: add --html OUT.html")
    if html:
        check_page(html)
    return TraceOptions(path, html, follow, **rest)


def make_demo(*, whole_year: bool = False, **rest: Any) -> DemoOptions:
    """The options of `demo`."""
    if whole_year and "days" in rest:
        raise InputError("cqels-opt demo: --days and --all: leave one of the two out")
    return DemoOptions(days=None, **rest) if whole_year else DemoOptions(**rest)
