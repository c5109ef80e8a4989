"""The options of the commands that read queries: `run`, `explain` and `verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from cqels_opt import plugins
from cqels_opt.cli.config import read_config
from cqels_opt.cli.input_files import existing, existing_file, existing_store, new_file, new_folder, new_state
from cqels_opt.cli.options import CONSTANTS, COST_MODELS, FILTERS, JOINS
from cqels_opt.cli.parameters import IriAndPlace, OneOf, Option, Place, Value, argument, by_window, grouped, named
from cqels_opt.cli.values import (
    parse_address,
    parse_batch,
    parse_bytes,
    parse_iri,
    parse_limit_of_bytes,
    parse_plan,
    parse_positive,
    parse_report,
    parse_setting,
    parse_t0,
)
from cqels_opt.query import dialects
from cqels_opt.query.durations import parse_duration, parse_positive_duration
from cqels_opt.spark.kafka_topic import ANSWER_PAYLOADS, SCHEME

PAYLOAD: Final = "json (rows of s p o t, the default), nt, ttl, nq, trig, jsonld, or a file that maps columns to triples"
DURATION: Final = Value(parse_positive_duration)
SIZE_LIMIT: Final = Value(parse_limit_of_bytes)


def query_parameters(answers: bool = True) -> list[click.Parameter]:
    """The queries, their inputs, their meaning, and how they run."""
    return [
        *text_parameters(),
        *grouped(
            "Inputs",
            Option("--config FILE.toml", "Options from a file: the key of an option is its long name (docs/cli.md).", click.Path(),
                is_eager=True, expose_value=False, callback=read_config),
            Option("--instances FILE.csv",
                "Run one query once per row of this file: $NAME$ in its text is replaced by the value of the column NAME.",
                Place(existing_file)),
            Option("--stream IRI PATH",
                "A stream: a file, a folder of new files, or kafka://host:port/topic; may be repeated.", **_pairs("streams", SCHEME)),
            Option("--payload [IRI=]FORMAT|FILE.toml", f"The format of topics: {PAYLOAD}.", multiple=True),
            Option("--static PATH", "Static data of the default graph; may be repeated.", Place(existing), multiple=True),
            graph_option(),
            Option("--store DIR|URI",
                "A store that `load` wrote: a folder, or a URI such as s3://BUCKET/PREFIX.", Place(existing_store)),
            Option("--follow", "The streams are live (folders always are)."),
            time_predicate_option("For streams of graphs: the predicate of an element's time (default: prov:generatedAtTime)."),
            on_error_option("Fail at a bad line, or skip it (default: fail; for a live source: skip)."),
        ),
        *grouped(
            "What the answers are",
            *meaning_options(),
        ),
        *grouped(
            "Order and lateness",
            Option("--lateness DUR", "How late an element may be: 500ms, 2s or 1h30m (default: 0s).", Value(parse_duration)),
            Option("--idle-timeout DUR", "Stop waiting for a stream that is idle for DUR (default: never).", DURATION),
            Option("--max-ahead DUR",
                "With a live source: reject an element further ahead of its predecessors than DUR (default: none).", DURATION),
            Option("--eager", "Finalize the greatest time at once: for sources whose batches never split an instant."),
            Option("--drain", "At the end of the input, continue until all windows are empty."),
        ),
        *grouped(
            "How it runs (never changes answers)",
            Option("--plan POLICY",
                "adaptive (default): the cheapest plan now; static: the cheapest after the first batch; first: as written; worst: "
                "the most expensive; spark: Spark's own; or fixed:PLANS.", Value(parse_plan)),
            Option("--joins",
                "The method of all joins that support it (default: auto, the cheapest for each join).",
                OneOf(*JOINS, lambda: plugins.names("join_methods"))),
            Option("--filters",
                "Placement of filters among the joins: cost (default), early, late (those on probabilities), or heuristics H1 to "
                "H4.", OneOf(*FILTERS)),
            Option("--cost-model",
                "default, paper (the cost functions of the CQELS report), or one that an installed package adds.",
                OneOf(*COST_MODELS, lambda: plugins.names("cost_models"))),
            Option("--constants",
                "Of the default cost model: measured by `calibrate`, where it was run (default), or the committed defaults.",
                OneOf(*CONSTANTS)),
            Option("--sub-result-bytes SIZE",
                "Limit of the sub-results (materialized static joins) per block: bytes, or 500k, 64M, 4G (default: 4G).",
                Value(parse_bytes)),
            Option("--batch N|DUR",
                "Elements per micro-batch of a replay: a number, or a duration of stream time (default: 5000).", Value(parse_batch)),
            Option("--batch-bytes SIZE", "New files of a live folder per micro-batch (default: 64M).", Value(parse_bytes)),
            Option("--engine", "Spark, or this process without Java (default: spark); a checkpoint moves from one to the other.",
                   OneOf("spark", "local")),
            Option("--processes N", "With --engine local: processes for large batches (default: as many as there are cores).",
                   Value(parse_positive)),
            Option("--checkpoint DIR|URI", "The folder, or the URI in an object store, from which the same command resumes.",
                Place(new_state)),
            Option("--continue-changed", "Resume with a changed query over the same windows."),
            Option("--trace FILE.jsonl", "Write one record per query and micro-batch.", Place(new_file)),
            Option("--out FILE|DIR/|TOPIC|-",
                "The answers: one JSON object per line (default: - for standard output), a folder with Parquet files per batch, "
                "or kafka://host:port/topic.", Place(_out)),
            Option("--out-payload", "Payload of messages with answers (default: answers).", OneOf(*ANSWER_PAYLOADS)),
            Option("--packages COORDINATES",
                "Packages that Spark loads for Kafka (default: its connector; none: already installed)."),
            master_option(),
            Option("--conf KEY=VALUE", "A setting of Spark, such as spark.executor.memory=4g; may be repeated.",
                Value(parse_setting), multiple=True),
        ),
        *(_output_options() if answers else ()),
        *grouped(
            "Limits per query and micro-batch (a query that exceeds one ends)",
            Option("--max-rows N", "Number of answers (default: no limit).", Value(parse_positive)),
            Option("--max-bound N",
                "Rows that an operator may give at most, by its size bound; checked before it runs (default: no limit).",
                Value(parse_positive)),
            Option("--max-time DUR", "Time (default: no limit).", DURATION),
            Option("--max-state SIZE", "State on disk (default: no limit).", SIZE_LIMIT),
            Option("--max-memory SIZE",
                "Rows of one result in the memory of a task (default: a quarter of the machine's memory).", SIZE_LIMIT),
        ),
    ]  # fmt: skip


def _output_options() -> list[Option]:
    return grouped(
        "Output",
        Option("--format", "Answers on standard output: json (default, one object per line), table or csv with one column per "
            "variable, nt with the triples of CONSTRUCT and DESCRIBE.", OneOf("json", "table", "csv", "nt")),
        Option("--limit N", "Print N answers, and stop as after Ctrl-C.", Value(parse_positive)),
        Option("--quiet", "No warnings, progress and summary.", short="-q"),
        Option("--verbose", "One line per micro-batch on standard error: elements, answers, milliseconds and plans.", short="-v"),
    )  # fmt: skip


def text_parameters() -> list[click.Parameter]:
    """The queries themselves."""
    return [
        argument("query", "QUERY.rq", "The file with the query, or - for standard input; several files run as one job.",
                 Place(_query, "the query"), nargs=-1, required=False),
        Option("-e TEXT", "The text of the query, instead of a file.", name="text"),
    ]  # fmt: skip


def dialect_options() -> list[Option]:
    """How the texts of queries are read."""
    return [
        Option("--dialect", "The language of the query (default: auto, which recognizes it).", OneOf("auto", dialects.names)),
        Option("--base IRI",
            "Resolve the relative IRIs of the query against this IRI, like BASE in its text.", Value(parse_iri)),
    ]  # fmt: skip


def meaning_options() -> list[Option]:
    """What a query means where its text leaves it open."""
    return [
        *dialect_options(),
        Option("--profile",
            "Windows, report, operator and duplicates as this dialect or engine defines them (default: the query's own dialect).",
            OneOf(dialects.profile_names)),
        Option("--report [NAME=]cc|ea|wc|nc|p:DUR,...",
            "When windows report: cc at each change of their content, ea when an element enters, wc at each window close, p:DUR "
            "every DUR; nc restricts these to windows that are not empty. Default: the profile's. NAME: of one window.",
            Value(parse_report), multiple=True, callback=by_window),
        Option("--output-operator",
            "Emit the rows that are new (istream), that are gone (dstream), or all rows at each report (rstream). Default: "
            "the query's or the profile's.", OneOf("istream", "dstream", "rstream", lambda: plugins.names("stream_operators"))),
        Option("--duplicates",
            "A triple that repeats in a window counts once (set), or each time (bag). Default: the profile's.", OneOf("set", "bag")),
        Option("--bounds",
            "The instants of a window: (begin, end] without its begin, or [begin, end) without its end. Default: the "
            "profile's.", OneOf("open-closed", "closed-open")),
        Option("--t0 [NAME=]MS",
            "The origin of the windows, in milliseconds since 1970 (default: 0). NAME: of one window.",
            Value(parse_t0), multiple=True, callback=by_window),
    ]  # fmt: skip


def _query(text: str, what: str) -> Path:
    return Path(text) if text == "-" else existing_file(text, what)


def _out(text: str, what: str) -> Path | str | None:
    """A file, a topic's URI, None for standard output, or a folder, which keeps its slash."""
    if text == "-":
        return None
    if text.startswith(SCHEME):
        return text
    if text.endswith("/") or Path(text).is_dir():
        return f"{new_folder(text, what)}/"
    return new_file(text, what)


# ------------------------------------------------------------------ options that other commands have too
def ui_option(what: str) -> Option:
    """``--ui``."""
    return Option("--ui [HOST:]PORT", what, Value(parse_address))


def graph_option() -> Option:
    """``--graph``."""
    return Option("--graph IRI PATH", "Static data of a named graph; may be repeated.", **_pairs("graphs"))


def time_predicate_option(what: str) -> Option:
    """``--time-predicate``."""
    return Option("--time-predicate IRI", what, Value(parse_iri))


def on_error_option(what: str = "Fail at a bad line, or skip it (default: fail).") -> Option:
    """``--on-error``."""
    return Option("--on-error", what, OneOf("fail", "skip"))


def master_option() -> Option:
    """``--master``."""
    return Option("--master URL", "The Spark master (default: local[*], this machine).")


def _pairs(name: str, other: str | None = None) -> dict[str, Any]:
    return {"type": IriAndPlace(), "name": name, "multiple": True, "nargs": 2, "callback": named(parse_iri, other)}
