"""Loads static RDF into a store.

A small input is loaded by this process. A larger one takes two stages of tasks, which a :class:`Crew` runs: they parse and encode pieces
of the files and spill them into buckets, then write vertical partitions and dictionary parts from the buckets. All tasks access the files
by path, so all processes of the crew must be able to read the data and the target. This process handles only counts and names.

A store for an object store is first written to a folder next to the cache of fetched stores, and tasks upload its files.
"""

from __future__ import annotations

import heapq
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, Protocol

from cqels_opt.errors import RunError
from cqels_opt.lod import object_store_cache
from cqels_opt.lod.atomic_publish import as_recorded, finish, following_scheme, load_place, scheme_for
from cqels_opt.lod.build import without_collisions
from cqels_opt.lod.files import HEADER
from cqels_opt.lod.loading import (
    Cuts,
    Outcome,
    Task,
    dictionary_ranges,
    gather_quads,
    gather_terms,
    load_pieces,
    spill_pieces,
    upload_files,
)
from cqels_opt.lod.locations import cache_folder, is_uri
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.store import Store
from cqels_opt.rdf.ids import IdScheme
from cqels_opt.rdf.static import MOST_FAILURES, Failure, Piece, StaticSource, pieces, source_size

#: Inputs up to this many bytes are loaded by this process in a few seconds.
SMALL: Final = 32 << 20
_PIECE: Final = (4 << 20, 64 << 20)
_BUCKET: Final = 64 << 20
_RANGE: Final = 256 << 20

#: Called with the bytes done and the total bytes, from the loading thread or another one.
Progress = Callable[[int, int], None]


class Crew(Protocol):
    """Runs the tasks of a large load: Spark's executors, or processes of this machine."""

    @property
    def cores(self) -> int:
        """The number of tasks that run at the same time."""

    def run(self, name: str, tasks: Sequence[Task], progress: Progress | None = None) -> list[Outcome]:
        """The outcomes of tasks, in order. Raises the first of our errors, CollisionError with the losers of all tasks."""


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The result of a load. ``failures`` are the first of those that ``on_error="skip"`` skipped."""

    path: Path | str
    fingerprint: str
    read: int
    triples: int
    terms: int
    graphs: int
    skipped: int
    failures: tuple[Failure, ...]


def load(
    crew: Crew,
    sources: Sequence[StaticSource],
    target: Path | str,
    *,
    scheme: IdScheme | None = None,
    on_error: Literal["fail", "skip"] = "fail",
    progress: Progress | None = None,
    durable: bool = True,
) -> LoadReport:
    """Loads files into a new store at ``target``, a folder or a URI. The store appears atomically and replaces an old one.

    Raises DataError (``path:line: message``) for the first bad line unless ``on_error`` is ``skip``.
    """
    if not is_uri(target):
        return _load(crew, sources, Path(target), scheme or scheme_for(Path(target)), on_error, progress, durable)
    object_store_cache.check_remote_target(str(target))
    tell = progress or (lambda done, of: None)
    size = sum(source_size(source) for source in sources)
    key = scheme or following_scheme(lambda: open_store(str(target)).scheme)
    with load_place(cache_folder().with_name("loading")) as place:
        folder = place.folder / "store"
        # writing here is most of the work; the upload counts for the last tenth
        report = _load(crew, sources, folder, key, on_error, lambda done, of: tell(done * 9 // 10, of), durable=False)
        store = open_store(folder)
        tasks = _uploads(store, str(target), crew.cores)
        crew.run("load: upload", tasks, lambda done, of: tell(size * 9 // 10 + size * done // (10 * of), size))
        object_store_cache.publish(store.path / HEADER, str(target), store.fingerprint)
    tell(size, size)
    return replace(report, path=target)


def _uploads(store: Store, uri: str, cores: int) -> list[Task]:
    """Tasks that upload the files of a store, with about equal numbers of bytes."""
    files = sorted((file for file in store.data.rglob("*") if file.is_file()), key=lambda file: -file.stat().st_size)
    shares: list[tuple[int, list[str]]] = [(0, []) for _ in range(min(4 * cores, max(1, len(files))))]
    for file in files:
        total, names = heapq.heappop(shares)
        heapq.heappush(shares, (total + file.stat().st_size, [*names, file.relative_to(store.data).as_posix()]))
    return [partial(upload_files, store.data, names, uri, store.fingerprint) for _, names in shares]


def _load(
    crew: Crew,
    sources: Sequence[StaticSource],
    target: Path,
    scheme: IdScheme,
    on_error: Literal["fail", "skip"],
    progress: Progress | None,
    durable: bool,
) -> LoadReport:
    """Loads files into a store in a folder."""
    sizes = [source_size(source) for source in sources]
    recorded = [as_recorded(source) for source in sources]
    tell = progress or (lambda done, of: None)
    tell(0, sum(sizes))
    with load_place(target) as place:

        def written(scheme: IdScheme) -> tuple[list[Outcome], Store]:
            folder = place.folder
            for left in folder.iterdir():  # left by an attempt in which terms collided
                shutil.rmtree(left) if left.is_dir() else left.unlink()
            if sum(sizes) <= SMALL:
                whole = [piece for number, source in enumerate(sources) for piece in pieces(source, number, 1 << 62)]
                reading = outcomes = [performed(partial(load_pieces, whole, folder, scheme, on_error == "skip"))]
            else:
                reading, outcomes = _in_two_stages(crew, sources, sum(sizes), folder, scheme, on_error == "skip", tell)
            adopted = folder / "store"
            _adopt(folder, adopted, outcomes)
            return reading, finish(
                adopted,
                place,
                scheme=scheme,
                partitions=[entry for outcome in outcomes for entry in outcome.partitions],
                parts=[part for outcome in outcomes for part in outcome.parts],
                graphs=[graph for outcome in reading for graph in outcome.graphs],
                sources=recorded,
                durable=durable,
            )

        reading, store = without_collisions(scheme, written)
    tell(sum(sizes), sum(sizes))
    return LoadReport(
        path=target,
        fingerprint=store.fingerprint,
        read=sum(outcome.read for outcome in reading),
        triples=store.triples,
        terms=store.terms,
        graphs=len(store.named_graphs()),
        skipped=sum(outcome.skipped for outcome in reading),
        failures=tuple(failure for outcome in reading for failure in outcome.failures)[:MOST_FAILURES],
    )


def _in_two_stages(
    crew: Crew, sources: Sequence[StaticSource], size: int, folder: Path, scheme: IdScheme, skip: bool, tell: Progress
) -> tuple[list[Outcome], list[Outcome]]:
    """Runs both stages, spill and gather, and returns their outcomes."""
    cores = crew.cores
    each = min(max(size // (4 * cores), _PIECE[0]), _PIECE[1])
    groups = list(_grouped([piece for scope, source in enumerate(sources) for piece in pieces(source, scope, each)], each))
    cuts = cuts_for(size, cores)
    # reading is about two thirds of the work
    spilled = crew.run(
        "load: read",
        [partial(spill_pieces, group, folder, scheme, skip, cuts) for group in groups],
        lambda done, of: tell(size * 2 * done // (3 * of), size),
    )
    spills = [outcome.spill for outcome in spilled if outcome.spill is not None]
    buckets = []
    for bucket in range(cuts.buckets):
        ranges = zip(*(spill.quads(bucket) for spill in spills))
        filled = [[piece for piece in slices if piece.end > piece.start] for slices in ranges]
        buckets.append([slices for slices in filled if slices])
    # longest task first
    buckets.sort(key=lambda ranges: -sum(piece.end - piece.start for slices in ranges for piece in slices))
    gathering: list[Task] = [partial(gather_quads, ranges, folder) for ranges in buckets if ranges]
    for number in range(dictionary_ranges(cuts.terms)):
        parts = [piece for piece in (spill.terms(number) for spill in spills) if piece.end > piece.start]
        if parts:
            gathering.append(partial(gather_terms, parts, folder, f"{number:04d}"))
    gathered = crew.run("load: write", gathering, lambda done, of: tell(size * 2 // 3 + size * done // (3 * of), size))
    return spilled, gathered


def cuts_for(size: int, cores: int) -> Cuts:
    """The numbers of parts of a load of ``size`` bytes: buckets occupy the cores, ranges bound the memory of a task.

    Even if all quads have one predicate, a range of its subjects covers ``_RANGE`` bytes of the source.
    """
    return Cuts(
        buckets=max(2 * cores, min(size // _BUCKET, 8 * cores)),
        subjects=1 << max(0, (size - 1) // _RANGE).bit_length(),
        terms=1 << (size // _RANGE).bit_length(),
    )


def _grouped(every: Sequence[Piece], size: int) -> Iterator[list[Piece]]:
    """Groups consecutive small pieces, so that a thousand tiny files are not a thousand tasks."""
    group: list[Piece] = []
    total = 0
    for piece in every:
        length = (piece.end - piece.start) if piece.end is not None else source_size(StaticSource(Path(piece.path)))
        if group and total + length > size:
            yield group
            group, total = [], 0
        group.append(piece)
        total += length
    if group:
        yield group


def _adopt(folder: Path, store: Path, outcomes: Sequence[Outcome]) -> None:
    """Moves the output of the successful attempts into one folder."""
    store.mkdir()
    for outcome in outcomes:
        own = folder / outcome.folder
        for entry in outcome.partitions:
            (store / entry.folder).parent.mkdir(parents=True, exist_ok=True)
            (own / entry.folder).rename(store / entry.folder)
        for part in outcome.parts:
            (store / "dictionary").mkdir(exist_ok=True)
            for name in part.files:
                (own / "dictionary" / name).rename(store / "dictionary" / name)
        shutil.rmtree(own, ignore_errors=True)


def performed(task: Task) -> Outcome:
    """The outcome of a task; RunError if a file cannot be read or written."""
    try:
        return task()
    except OSError as error:
        raise RunError(f"{error.filename or 'a file of the load'}: {error.strerror or error}") from error
