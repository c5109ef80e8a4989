"""The command line: ``cqels-opt COMMAND``. It parses options, calls the engine, prints results, and returns the exit code.

0 success, 1 answers differ (`verify`), 2 the input is wrong, 3 the run failed. Commands import heavy modules on demand, so that
``--help`` and usage errors are fast.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cqels_opt.cli.grammar import parse
from cqels_opt.cli.java import find_java
from cqels_opt.cli.options import (
    BenchOptions,
    CalibrateOptions,
    CheckOptions,
    CheckpointOptions,
    ConvertOptions,
    DemoOptions,
    ExplainOptions,
    GatewayOptions,
    LoadOptions,
    RunOptions,
    StoreOptions,
    TraceOptions,
    UpdateOptions,
)
from cqels_opt.cli.run_results import Summary
from cqels_opt.cli.session_settings import jvm_settings_of_run
from cqels_opt.errors import CqelsOptError, InputError, QueryError, RunWarning, for_the_command_line
from cqels_opt.spark.jvm import jvm_started
from cqels_opt.spark.package import check_installed, is_absent, missing
from cqels_opt.storage.file_errors import file_error

DONE, DIFFERENT, WRONG_INPUT, FAILED = 0, 1, 2, 3
_ALLOCATIONS = 50_000
"""Between two collections of garbage. With Python's 700, a tenth of the start traverses modules, which are never garbage."""


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code of the process."""
    words = sys.argv[1:] if words is None else words
    debug, command = "--debug" in words, None
    if not debug:
        logging.basicConfig(level=logging.CRITICAL)  # we report a failure in one line instead
    gc.set_threshold(_ALLOCATIONS)
    try:
        command, options = parse(words)
        with _terminated_as_interrupted(), for_the_command_line(), _warnings_in_one_line():
            code = _COMMANDS[command](options) if command else DONE
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of the pipe has exited: not an error, and no more output is possible
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:  # the engine handles an interrupt during a run; here none had started
        _complain("stopped" if command == "bench" else "stopped before anything was done", debug)
        return FAILED
    except InputError as error:
        _complain(error.report() if isinstance(error, QueryError) else _one_line(str(error)), debug)
        return WRONG_INPUT
    except Exception as error:  # noqa: BLE001 - last resort: the user gets one line
        if is_absent(error):  # a part of the benchmarks that needs Spark
            _complain(str(missing("this command")), debug)
            return WRONG_INPUT
        if (of_file := file_error(error)) is not None:
            _complain(_one_line(str(of_file)), debug)
            return WRONG_INPUT
        if isinstance(error, CqelsOptError):
            _complain(_one_line(str(error)), debug)
            return FAILED
        if isinstance(error, ConnectionError):
            _complain("the JVM of Spark has ended; the same command continues where it was, if it has a --checkpoint", debug)
            return FAILED
        _complain(f"{type(error).__name__}: {_one_line(str(error))}{'' if debug else ' (--debug shows where)'}", debug)
        return FAILED


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Handles SIGTERM like Ctrl-C, so that a service manager gets the same end: a summary, and no leftover files."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Prints each RunWarning as other warnings of commands, without the place in the code where Python shows it."""
    with warnings.catch_warnings():
        otherwise = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if not issubclass(category, RunWarning):
                otherwise(message, category, *place, **more)
                return
            from cqels_opt.cli.warnings_console import warn  # with rich, which most commands need only for this

            warn(str(message))

        warnings.showwarning = show
        yield


def _complain(message: str, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    print(message, file=sys.stderr)


def _one_line(message: str) -> str:
    """The first non-empty line: Spark's messages continue with pages of plans and stack traces."""
    return next((line.strip() for line in message.splitlines() if line.strip()), "no reason given")


# ------------------------------------------------------------------ the commands
def _run(options: RunOptions) -> int:
    with _engine(options) as run:
        summary = run(options)
    if not options.quiet:
        print(summary, file=sys.stderr)
    return DONE


@contextmanager
def _engine(options: RunOptions) -> Iterator[Callable[[RunOptions], Summary]]:
    """The function that runs queries on the engine of the options; Spark's JVM starts before what takes long is imported."""
    if options.engine == "local":
        from cqels_opt.cli.local_run import run

        yield run
        return
    _need_spark(_LOCAL)
    with jvm_started(jvm_settings_of_run(options)):
        from cqels_opt.cli.commands import run as run_on_spark

        yield run_on_spark


_LOCAL = "--engine local runs the query without Spark and Java"


def _need_spark(instead: str) -> None:
    """Checks PySpark and Java for a command; an error ends with what to do ``instead``."""
    try:
        check_installed("this command")
        find_java()
    except InputError as error:
        raise InputError(f"{error}; {instead}") from error


def _explain(options: ExplainOptions) -> int:
    if options.void is not None and not options.has_data:
        from cqels_opt.cli.void_planning import explain as explain_described

        print(explain_described(options))
        return DONE
    if options.run.engine == "local":
        from cqels_opt.cli.local_run import explain as explain_locally

        print(explain_locally(options))
        return DONE
    _need_spark(_LOCAL)
    from cqels_opt.cli.commands import explain

    print(explain(options))
    return DONE


def _check(options: CheckOptions) -> int:
    from cqels_opt.cli.query_check import described

    print(described(options.run))
    return DONE


def _convert(options: ConvertOptions) -> int:
    from cqels_opt.cli.query_requests import translated

    print(translated(options.run, options.to), end="")
    return DONE


def _verify(options: RunOptions) -> int:
    with _engine(options) as run:
        from cqels_opt.cli.verification import verify  # with rdflib and networkx, which no other command needs

        report = verify(options, run)
    print(report)
    return DIFFERENT if not report.agrees else FAILED if report.unjudged else DONE


def _load(options: LoadOptions | UpdateOptions) -> int:
    if isinstance(options, UpdateOptions):
        from cqels_opt.cli.store_update import update

        print(update(options), file=sys.stderr)
        return DONE
    if options.engine == "local":
        from cqels_opt.cli.store_load import load_locally

        print(load_locally(options), file=sys.stderr)
        return DONE
    _need_spark("--engine local loads the files without Spark and Java")
    from cqels_opt.cli.commands import load

    print(load(options), file=sys.stderr)
    return DONE


def _store(options: StoreOptions) -> int:
    folder = options.store
    if options.action == "void":
        from cqels_opt.lod.open_store import open_store
        from cqels_opt.lod.void_store import of_store
        from cqels_opt.rdf.void import turtle

        print(turtle(of_store(open_store(folder))), end="")
        return DONE
    from cqels_opt.lod.check import check, info

    if options.action == "check":
        if findings := check(folder):
            print(*findings, sep="\n", file=sys.stderr)
            return WRONG_INPUT
        print(f"{folder}: whole")
        return DONE
    store = info(folder)
    print(
        f"{folder}: {store.triples:,} triples, {store.terms:,} terms, {len(store.graphs):,} named graphs, {store.bytes:,} bytes, "
        f"version {store.number}, format {store.version}, fingerprint {store.fingerprint}"
    )
    for p in store.predicates:
        print(
            f"  {p.triples:>12,}  {p.predicate}{f'  in {p.graph}' if p.graph else ''}  ({p.subjects:,} subjects, {p.objects:,} objects)"
        )
    return DONE


def _checkpoint(options: CheckpointOptions) -> int:
    from cqels_opt.runtime.checkpoint_check import check

    place = options.checkpoint
    if isinstance(place, str):
        from cqels_opt.state.remote_checkpoint import whole_copy

        place = whole_copy(place)
    if findings := check(place, options.out, options.trace):
        print(*findings, sep="\n", file=sys.stderr)
        return WRONG_INPUT
    print(f"{options.checkpoint}: whole")
    return DONE


def _trace(options: TraceOptions) -> int:
    from cqels_opt.trace import command

    if options.html:
        command.write_page(options.file, options.html, options.compare)
        print(f"page: {options.html}", file=sys.stderr)
    elif options.follow:
        command.follow_file(options.file, options.ui)
    else:
        command.show_summary(options.file)
    return DONE


def _bench(options: BenchOptions) -> int:
    from cqels_opt.bench.harness import bench, check

    if not options.list and options.spark and (options.full or options.scenarios != ("arena",)):
        check(options)
        _need_spark("--no-spark leaves out what needs it")
    bench(options)
    return DONE


def _gateway(options: GatewayOptions) -> int:
    from cqels_opt.gateway import LiveFolder, gateway, make_source
    from cqels_opt.rdf.payloads import payload_of
    from cqels_opt.state.checkpoint_lock import hold_file
    from cqels_opt.storage import disk

    def refusal(process: str) -> InputError:
        return InputError(
            f"{options.folder}: another gateway{f' (process {process})' if process else ''} writes to it: name another folder"
        )

    if options.folder.is_file():
        raise InputError(f"{options.folder}: not a folder")
    disk.make_folder(options.folder)
    held = hold_file(options.folder / ".gateway.lock", refusal)  # until the end
    held.write(str(held.process))
    folder = LiveFolder(options.folder, payload_of(options.payload, options.time_predicate), options.refused)
    source = make_source(options.url, client=options.client, send=options.send)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    counts = gateway(source, folder, stop, options.every / 1000)
    print(
        f"gateway: {counts.messages:,} messages, {counts.elements:,} elements in {counts.files:,} files, {counts.refused:,} refused"
        + (f" (kept in {folder.refused})" if counts.refused else ""),
        file=sys.stderr,
    )
    return DONE


def _calibrate(options: CalibrateOptions) -> int:
    if options.spark and not options.show:
        _need_spark("--no-spark measures everything else")
    from cqels_opt.cli.constants import calibrate

    print(calibrate(options))
    return DONE


def _demo(options: DemoOptions) -> int:
    from cqels_opt.cli.demo import demo

    if options.engine == "spark":
        _need_spark("without --engine spark, the demo needs neither Spark nor Java")
    demo(options)
    return DONE


_COMMANDS: dict[str, Callable[[Any], int]] = {
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

if __name__ == "__main__":
    sys.exit(main())
