"""Streams in files, on either engine: a replay that is cut into chunks, and its frontier; or live folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cqels_opt.errors import CheckpointError, InputError
from cqels_opt.rdf.streams import OnError
from cqels_opt.runtime.run_state import DriverOptions
from cqels_opt.state.commit_log import COMMITS
from cqels_opt.windows.batch_size import BatchSize
from cqels_opt.windows.frontier import Frontier, SourcePartition
from cqels_opt.windows.replay import ReplayPlan, ReplaySource, cut
from cqels_opt.windows.replay_plan import RECORD, REPLAY

Streams = Sequence[tuple[str, Path]]
"""Bare IRIs of streams, and their files in order, or their folders."""


def used_streams(given: Streams, needed: Sequence[str]) -> list[tuple[str, Path]]:
    """The streams that queries read."""
    bare = [iri.strip("<>") for iri in needed]
    return [(iri.strip("<>"), path) for iri, path in given if iri.strip("<>") in bare]


def are_live(used: Streams, follow: bool) -> bool:
    """Whether streams are live folders. InputError if folders and files are mixed."""
    live = follow or any(path.is_dir() for _, path in used)
    if live and not all(path.is_dir() for _, path in used):
        raise InputError(
            "a run follows folders or replays files, not both at once: give folders for all streams, or files for all"
        )
    return live


def numbered_folders(used: Streams, needed: Sequence[str]) -> list[tuple[int, Path]]:
    """The number of the stream of each folder, or growing file, and its path. InputError if a stream has several."""
    names = [iri for iri, _ in used]
    if twice := [iri for iri in names if names.count(iri) > 1]:
        raise InputError(
            f"stream <{twice[0]}> is given more than once: a run that follows it reads one folder, or one file that grows"
        )
    return [(i, path) for iri, path in used for i, s in enumerate(needed) if s.strip("<>") == iri]


def replay_of(
    used: Streams,
    needed: Sequence[str],
    folder: Path,
    lateness: int,
    on_error: OnError,
    time_predicate: str,
    size: BatchSize,
) -> ReplayPlan:
    """Cuts the files of streams into chunks below a checkpoint's ``folder``, one per micro-batch.

    CheckpointError if batches are committed, and the record of what they have read is missing: other batches would follow them.
    """
    record = folder / REPLAY / RECORD
    if not record.exists() and any((folder / COMMITS).glob("[0-9]*.json")):
        raise CheckpointError(
            f"{record} is missing, and the checkpoint has committed batches: bring it back or, if they are of a run that followed its "
            "sources, follow them; else use another checkpoint"
        )
    names = {s.strip("<>"): s for s in needed}
    sources = [ReplaySource(names[iri], tuple(p for i, p in used if i == iri)) for iri in dict.fromkeys(i for i, _ in used)]
    ordered = sorted(sources, key=lambda source: needed.index(source.stream))
    return cut(ordered, folder / REPLAY, size, lateness, on_error, time_predicate)


def finite_frontier(plan: ReplayPlan, lateness: int, eager: bool) -> Frontier:
    """The frontier of a replay, all of whose elements are known."""
    frontier = Frontier(plan.streams, lateness, eager, finite=True)
    for p in plan.partitions:
        frontier.partitions[p.partition] = SourcePartition(
            plan.streams[p.stream], first_known=p.first if p.elements else None, elements=p.elements
        )
    return frontier


def with_replay(options: DriverOptions, plan: ReplayPlan) -> DriverOptions:
    """Options of a run, with what is known of its replay."""
    sources: Mapping[int, str] = {p.partition: p.path for p in plan.partitions}
    return replace(
        options,
        sources=sources,
        refused=(*options.refused, plan.rejected_file),
        refused_in=plan.rejected_in,
        waiting=lambda number, _: (plan.newest, len(plan.chunks) - number - 1),
    )
