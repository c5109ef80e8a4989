"""Builds the parts of a run for the engine and the command line: driver, streams, side files."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from cqels_opt.compiler.multi_query_sharing import Member
from cqels_opt.errors import InputError, option
from cqels_opt.lod.locations import local_path
from cqels_opt.query.durations import duration_of
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.interfaces import Runner, Sink
from cqels_opt.runtime.query_catalog import QueryCatalog
from cqels_opt.runtime.query_migration import patterns_of, windows_of
from cqels_opt.runtime.query_network import network
from cqels_opt.runtime.run_state import IN_THREADS, DriverOptions
from cqels_opt.runtime.static_data import fingerprint
from cqels_opt.state.run_identity import Identity
from cqels_opt.trace.writer import TraceFile
from cqels_opt.windows.frontier import Frontier
from cqels_opt.windows.instants import check_drain

S = TypeVar("S")


def make_driver(
    catalog: QueryCatalog,
    folder: Path,
    runner: Runner,
    sink: Sink,
    frontier: Frontier,
    options: DriverOptions,
    trace: str | Path | None,
) -> Driver:
    """The driver of a run. Copies the terms that registration encoded into the checkpoint's folder."""
    programs, members = catalog.programs(), catalog.started.members
    if options.drain:
        check_drain(window for program in programs for window in program.windows)
    windows = {
        member.id: windows_of(program) for program, unit in zip(programs, catalog.started.units) for _, member in unit.members
    }
    identity = Identity(
        {m.id: _identity(m) for m in members},
        windows,
        patterns_of(programs),
        {
            "static data": fingerprint(programs[0].store),
            "lateness": frontier.lateness,
            "drain": options.drain,
        },
        tuple(network(programs).feeds),
    )
    log = TraceFile(local_path(trace, "trace").absolute(), folder) if trace is not None else None
    return Driver(
        folder,
        programs,
        runner,
        sink,
        frontier,
        options,
        identity,
        catalog=catalog,
        trace=log,
        background=IN_THREADS,
    )


def frontier_of(streams: tuple[str, ...], lateness: int | str, eager: bool, max_ahead: int | str | None) -> Frontier:
    """The frontier of live streams, with the durations that a user gives."""
    ahead = None if max_ahead is None else duration_of(max_ahead, "max_ahead", positive=True)
    return Frontier(streams, duration_of(lateness, "lateness"), eager, max_ahead=ahead)


def idle_milliseconds(idle_timeout: int | str | None) -> int | None:
    """The milliseconds of ``idle_timeout``."""
    return None if idle_timeout is None else duration_of(idle_timeout, "idle_timeout", positive=True)


def _identity(member: Member) -> list[str]:
    """What a run that resumes from a checkpoint must have in common with the run before."""
    meaning = member.meaning
    types = [repr(member.types)] if member.types else []
    return [member.query.text, meaning.operator, meaning.duplicates, repr(meaning.report), *types]


def external_streams(catalog: QueryCatalog) -> tuple[str, ...]:
    """The streams that queries read and that no query produces, in order of first use."""
    programs = catalog.programs()
    fed = network(programs).fed
    return tuple(dict.fromkeys(s for program in programs for s in program.streams if s not in fed))


def streams_by_iri(streams: Mapping[str, S]) -> dict[str, S]:
    """The streams of a run by their IRIs without brackets. Raises InputError for anything but a mapping."""
    if not isinstance(streams, Mapping):
        raise InputError(f"streams={streams!r}: give the streams by their IRIs, such as {{'http://example.org/stream': …}}")
    if wrong := [iri for iri in streams if not isinstance(iri, str)]:
        raise InputError(f"streams: {wrong[0]!r} is no IRI: give the streams by their IRIs")
    bare = [iri.strip("<>") for iri in streams]
    if twice := [iri for iri in bare if bare.count(iri) > 1]:
        raise InputError(f"streams: {twice[0]} is given twice, with and without brackets: leave one of the two out")
    return dict(zip(bare, streams.values()))


def check_streams(needed: Sequence[str], given: Mapping[str, object], kind: str = "PATH") -> None:
    """Raises InputError if a stream that a query reads is not given; ``kind`` is what a stream of a run in Python is."""
    for iri in needed:
        if iri.strip("<>") not in given:
            named = ", ".join(f"<{i}>" for i in given) or "no stream"
            bare = iri.strip("<>")
            remedy = option(f"streams={{{bare!r}: {kind}}}", f"--stream {shlex.quote(bare)} PATH")
            raise InputError(f"the query reads stream <{bare}>, but given is {named}: add {remedy}")


def rejects_of(trace: str | Path | None, folder: Path) -> Path:
    """The file of rejected elements and messages with their reasons: next to the trace, or in the state folder."""
    return folder / "rejected.jsonl" if trace is None else Path(f"{local_path(trace, 'trace').absolute()}.rejected")
