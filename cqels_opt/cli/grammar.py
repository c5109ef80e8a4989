"""The commands and their options, with help. :func:`parse` returns the options of a command as a dataclass.

click parses the words. To add an option, add a field to the dataclass of the command (`options.py`), and a parameter of the same name here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import click.shell_completion

from cqels_opt import plugins
from cqels_opt.cli.checks import make_check, make_convert, make_demo, make_explain, make_load, make_run, make_trace
from cqels_opt.cli.input_files import existing, existing_file, existing_folder, existing_store, new_file, new_folder, new_store
from cqels_opt.cli.options import BenchOptions, CalibrateOptions, CheckpointOptions, GatewayOptions, StoreOptions
from cqels_opt.cli.parameters import PROGRAM, Command, Commands, OneOf, Option, Place, Value, argument, grouped, usage_error
from cqels_opt.cli.query_options import (
    DURATION,
    PAYLOAD,
    dialect_options,
    graph_option,
    master_option,
    meaning_options,
    on_error_option,
    query_parameters,
    text_parameters,
    time_predicate_option,
    ui_option,
)
from cqels_opt.cli.values import parse_batch_count, parse_batch_number, parse_days
from cqels_opt.query import dialects


def parse(words: Sequence[str]) -> tuple[str, Any]:
    """The command and its options; ``""`` if the words only asked for help. Raises InputError in one line."""
    try:
        found = make_commands().main(list(words), PROGRAM, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.ctx.get_help() if error.ctx is not None else "")
        return "", None
    except click.Abort as error:  # Ctrl-C
        raise KeyboardInterrupt from error
    except click.ClickException as error:
        usage_error(error)
    return found if isinstance(found, tuple) else ("", None)


_COMPINIT = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }"
"""Loads zsh's completion if ``~/.zshrc`` has not."""


def _print_completion(ctx: click.Context, _: click.Parameter, shell: str | None) -> None:
    if shell is not None:
        found = click.shell_completion.get_completion_class(shell)
        assert found is not None
        if shell == "zsh":
            print(_COMPINIT)
        print(found(ctx.command, {}, PROGRAM, "_CQELS_OPT_COMPLETE").source())
        ctx.exit()


def make_commands() -> click.Group:
    """All commands."""
    group = Commands(
        _COMMANDS,
        help="Continuous SPARQL over RDF streams and Linked Open Data, on Spark.",
        result_callback=lambda options: (click.get_current_context().invoked_subcommand, options),
        context_settings={"max_content_width": 120, "help_option_names": ["-h", "--help"]},
        params=[
            Option(
                "--completion",
                'Print the completion of a shell: put eval "$(cqels-opt --completion bash)" into ~/.bashrc.',
                OneOf("bash", "zsh", "fish"),
                is_eager=True,
                expose_value=False,
                callback=_print_completion,
            )
        ],
        epilog="Exit codes: 0 done, 1 answers differ (verify), 2 the input is wrong, 3 the run failed.",
    )
    return click.version_option(None, package_name=PROGRAM, message="%(prog)s %(version)s")(group)


def _run() -> Command:
    page = "Serve the trace as a page while the job runs, and metrics for Prometheus at /metrics (0: any free port)."
    return Command("run", make_run, [*query_parameters(), ui_option(page)], "run a continuous query over streams and static data")


def _explain() -> Command:
    own = [
        Option("--format", "Format of the plans (default: text).", OneOf("text", "json", "dot")),
        Option("--analyze", "Run the query over its streams, without writing answers, and show what each operator of the last batch took."),
        Option("--at BATCH", "With --analyze: this micro-batch (from 0).", Value(parse_batch_number)),
        Option("--every K", "With --analyze: every K-th micro-batch.", Value(parse_batch_count)),
        Option("--all", "Show every retained alternative, not only the cheapest."),
        Option("--void FILE",
            "A VoID description of the static data: plan without the data, or compare it with the loaded data.",
            Place(existing_file)),
    ]  # fmt: skip
    return Command(
        "explain", make_explain, [*query_parameters(answers=False), *own], "show the plans with their estimates, without running"
    )


def _check() -> Command:
    params = [*text_parameters(), *grouped("What the answers are", *meaning_options())]
    return Command("check", make_check, params, "parse a query and describe its windows and semantics, without Java and data")


def _convert() -> Command:
    to = Option("--to DIALECT", "The dialect to print the query in.", OneOf(dialects.names), required=True)
    return Command("convert", make_convert, [*text_parameters(), to, *dialect_options()], "print a query in another dialect")


def _verify() -> Command:
    return Command(
        "verify", make_run, query_parameters(answers=False), "run, and compare every answer with an independent evaluation"
    )


def _load() -> Command:
    params = [
        argument("paths", "PATH", "Files for the default graph.", Place(existing, "load"), nargs=-1),
        Option("--store DIR|URI", "The folder of the store, or its URI in an object store.", Place(new_store)),
        Option("--update DIR", "An existing store: write its next version, with --add and --remove.", Place(existing_store)),
        Option("--add PATH", "With --update: triples (quads) to add.", Place(existing), multiple=True),
        Option("--remove PATH", "With --update: triples (quads) to remove, before --add.", Place(existing), multiple=True),
        graph_option(),
        on_error_option(),
        master_option(),
        Option("--engine", "Spark, or this process without Java (default: spark). The store is the same.", OneOf("spark", "local")),
    ]  # fmt: skip
    return Command("load", make_load, params, "load static data into a store, or update one while queries read it")


def _store() -> Command:
    params = [
        argument("action", "info|check|void", "Show it, verify its files, or describe it.", OneOf("info", "check", "void")),
        argument("store", "DIR|URI", "The store.", Place(existing_store, "store")),
    ]
    return Command("store", StoreOptions, params, "show a store, verify its files, or describe it in VoID")


def _checkpoint() -> Command:
    params = [
        argument("action", "check", "Verify its files.", OneOf("check")),
        argument("checkpoint", "DIR|URI", "The folder of the checkpoint, or its URI.", Place(existing_store, "checkpoint")),
        Option("--out FILE|DIR/", "Verify the committed part of these answers as well.", click.Path(path_type=Path)),
        Option("--trace FILE.jsonl", "Verify the committed part of this trace as well.", click.Path(path_type=Path)),
    ]  # fmt: skip
    return Command("checkpoint", CheckpointOptions, params, "verify the files of a checkpoint that no run uses")


def _trace() -> Command:
    params = [
        argument("file", "FILE.jsonl", "The file that --trace wrote.", None),
        Option("--html OUT.html", "Write a self-contained page instead.", Place(new_file)),
        Option(
            "--compare OTHER.jsonl", "With --html: another trace of the same queries, on the same page.", Place(existing_file)
        ),
        Option("--follow", "Show the trace of a running job until Ctrl-C."),
        ui_option("With --follow: serve it as a page as well."),
    ]
    return Command("trace", make_trace, params, "summarize a trace: plans, plan changes with their reasons, slow batches")


def _calibrate() -> Command:
    params = [
        Option("--show", "Only show the current constants and their origin."),
        Option("--no-spark", "Measure only what needs no Spark (two seconds).", name="spark", flag_value=False, default=True),
        master_option(),
    ]  # fmt: skip
    return Command(
        "calibrate", CalibrateOptions, params, "measure the constants of the cost model on this machine, for later runs"
    )


def _gateway() -> Command:
    params = [
        argument("url", "URL", "mqtt://host:port/topic, ws://host:port/path or http://host:port/path.", None),
        argument("folder", "DIR", "The live folder, which `run --stream IRI DIR` follows.", Place(new_folder, "gateway")),
        Option("--payload FORMAT|FILE.toml", f"The format of messages: {PAYLOAD}."),
        time_predicate_option("For RDF payloads: the predicate of an element's time (default: prov:generatedAtTime)."),
        Option("--every DUR", "Write at most one file per DUR (default: 1s).", DURATION),
        Option("--refused FILE.jsonl", "The file for bad messages (default: DIR/_refused.jsonl).", Place(new_file)),
        Option("--client NAME", "The MQTT client id of this gateway."),
        Option("--send TEXT", "The first message to a WebSocket server."),
    ]  # fmt: skip
    return Command(
        "gateway", GatewayOptions, params, "write messages of MQTT, a WebSocket or Server-Sent Events into a live folder"
    )


def _bench() -> Command:
    params = [
        argument("scenarios", "SCENARIO", "A name of --list, or a file my.toml (default: evaluation).", None, nargs=-1),
        Option("--list", "List the scenarios and the contenders."),
        Option("--quick", "Run at small scale."),
        Option("--json OUT", "Write the figures as JSON.", Place(new_file)),
        Option("--html OUT", "Write figures and pictures as one page that needs no network.", Place(new_file)),
        Option("--page OUT.md", "With evaluation or arena: write its page in Markdown.", Place(new_file)),
        Option("--contender FILE|NAME",
            "One more contender: a Python or TOML file, or the name that an installed package adds; may be repeated.",
            Place(_contender), name="contenders", multiple=True),
        Option("--no-spark",
            "Leave out the contenders of scenarios that need Spark.",
            name="spark", flag_value=False, default=True),
        Option("--keep DIR",
            "Store each finished report, and reuse stored ones of the same commit, options, files and machine.",
            Place(new_folder)),
        Option("--job NAME", "With adaptive-join: only this job; may be repeated.", name="jobs", multiple=True),
        Option("--data FOLDER",
            "With adaptive-join: the folder package/data of the npm package vega-datasets (default: generated flights).",
            Place(existing_folder)),
        Option("--full", "With arena: data of full size, and the rivals that need Spark."),
        Option("--workload NAME", "With arena: only this workload; may be repeated.", name="workloads", multiple=True),
        Option("--rival NAME",
            "With arena: only this rival, next to the engine and the independent evaluation; may be repeated.",
            name="rivals", multiple=True),
    ]  # fmt: skip
    return Command("bench", BenchOptions, params, "run scenarios of the benchmark harness")


def _contender(text: str, what: str) -> Path | str:
    return text if text in plugins.names("contenders") else existing(text, what)


def _demo() -> Command:
    params = [
        Option("--days N", "Days from 7 February 2013, before the blizzard (default: 28).", Value(parse_days)),
        Option("--all", "The whole year.", name="whole_year"),
        Option("--engine", "local (default): without Java.", OneOf("local", "spark")),
        Option("--verbose", "Also the first answers, and all plans and their changes."),
        Option("--out DIR", "For data, answers, traces and the page (default: demo-out).", Place(new_folder)),
    ]
    return Command(
        "demo",
        make_demo,
        params,
        "run a continuous query over real departures and weather, adaptive next to two plans that never change",
    )


_COMMANDS = {
    "run": _run,
    "explain": _explain,
    "check": _check,
    "convert": _convert,
    "verify": _verify,
    "load": _load,
    "store": _store,
    "checkpoint": _checkpoint,
    "trace": _trace,
    "gateway": _gateway,
    "calibrate": _calibrate,
    "bench": _bench,
    "demo": _demo,
}
