"""Verifying that all of a checkpoint is as it was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from cqels_opt.errors import CheckpointError, StoreError
from cqels_opt.lod.check import check as check_store
from cqels_opt.lod.files import HEADER as STORE
from cqels_opt.lod.files import read_header, same_content
from cqels_opt.lod.relation import FORMAT as RELATION_FORMAT
from cqels_opt.lod.relation import HEADER as RELATION
from cqels_opt.lod.relation import VERSION as RELATION_VERSION
from cqels_opt.runtime.answer_folder import FolderSink
from cqels_opt.runtime.growing_files import READ
from cqels_opt.runtime.idle_streams import FOLDER as IDLE
from cqels_opt.runtime.query_catalog import FOLDER as QUERIES
from cqels_opt.runtime.quotas import NOTES
from cqels_opt.runtime.static_data import SOURCES
from cqels_opt.runtime.store_versions import FOLDER as STATIC
from cqels_opt.runtime.store_versions import START
from cqels_opt.state.checkpoint_lock import lock_checkpoint
from cqels_opt.state.commit_log import COMMITS, SPARK, Commit, CommitLog
from cqels_opt.state.run_identity import NAME
from cqels_opt.storage import checksum, disk, documents
from cqels_opt.storage.sealed_files import opened_whole
from cqels_opt.windows.replay_plan import RECORD, REPLAY, read_plan


def check(folder: Path, out: Path | None = None, trace: Path | None = None) -> list[str]:
    """Reads all of a checkpoint and reports damage, one sentence per file; an intact checkpoint has none.

    ``out`` and ``trace`` are the file (or folder) of answers and the trace of its runs. CheckpointError if there is no checkpoint,
    or a process uses it.
    """
    if not (folder / COMMITS).is_dir():
        raise CheckpointError(f"{folder} has no folder {COMMITS}: it is not a checkpoint")
    held = lock_checkpoint(folder)
    found = list(_findings(folder, out, trace))
    del held
    return found


def _findings(folder: Path, out: Path | None, trace: Path | None) -> Iterator[str]:
    log, last = CommitLog(folder), None
    for record in sorted(log.records.glob("[0-9]*.json")):
        try:
            last = log.read(record)
        except CheckpointError as error:
            yield str(error)
            continue
        named = [name for name in (last.optimizer, *last.statistics, *(file.path for file in last.files)) if name]
        yield from (f"{folder / name} is missing: {record.name} names it" for name in named if not (folder / name).exists())
    if last is not None and (replay := folder / REPLAY).is_dir() and not (replay / RECORD).exists():
        yield f"{replay / RECORD} is missing: the run replays files"
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        if path.is_file() and not path.name.startswith(".") and inside[0] not in (COMMITS, SPARK):
            yield from _of_file(path)
    try:
        log.check()
    except CheckpointError as error:
        yield str(error)
    if last is not None:
        yield from _of_sinks(last, out, trace)


def _of_file(path: Path) -> Iterator[str]:
    """The damage of a file, or of the files that a header describes."""
    try:
        if path.name == SOURCES and not (path.parent / "store" / STORE).exists():
            yield f"{path.parent / 'store' / STORE} is missing: {path} describes its data"
        if path.name == STORE and not path.parent.name.startswith("data-"):
            yield from check_store(path.parent)
        elif path.name == RELATION:
            yield from _of_relation(path)
        elif (verify := _verifier(path)) is not None:
            verify(path)
    except (CheckpointError, StoreError) as error:
        yield str(error)


def _verifier(path: Path) -> Callable[[Path], object] | None:
    """The function that verifies a file of the state; None for a file without a checksum."""
    if path.suffix in (".arrow", ".bin", ".zip"):
        return opened_whole
    if checksum.digest_in_name(path):
        return checksum.verify_name
    if path.name == RECORD:
        return lambda record: read_plan(record.parent)
    numbered = path.parent.name in (COMMITS, QUERIES, IDLE, STATIC) and (path.stem.isdecimal() or path.name == START)
    return _json if path.suffix == ".json" and (numbered or path.name in (NOTES, NAME, SOURCES, READ)) else None


def _json(path: Path) -> None:
    with documents.naming_damage(path):
        documents.decode(path.name, disk.read(path))


def _of_relation(header: Path) -> Iterator[str]:
    """The damage of the arrays of a sub-result."""
    for name, entry in read_header(header, RELATION_FORMAT, RELATION_VERSION)["files"].items():
        path = header.parent / name
        if not path.exists() or not same_content(path, entry):
            yield f"{path} does not have its checksum: remove {header.parent.parent}, it is made again"


def _of_sinks(last: Commit, out: Path | None, trace: Path | None) -> Iterator[str]:
    """The damage of the committed part of the output."""
    kinds = {"out": "file", "batches": "folder"}
    kind = "batches" if out is not None and out.is_dir() else "out"
    if out is not None and kind not in last.lengths and (committed := kinds.keys() & last.lengths):
        yield f"{out}: the checkpoint has committed its answers to a {kinds[committed.pop()]}, and this is none; bring it back"
    files = [(out, "out"), (trace, "trace")]
    for path, name in files:
        if path is None or (name == "out" and kind == "batches"):
            continue
        try:
            checksum.committed(path, last.lengths.get(name, 0), last.digests.get(name, ""))
        except CheckpointError as error:
            yield str(error)
    if out is not None and kind == "batches":
        batches = last.lengths.get("batches", 0)
        if f"{FolderSink(out).digest_before(batches):032x}" != last.digests.get("batches", f"{0:032x}"):
            yield f"{out}: its first batches are not those that the checkpoint has committed; bring the folder back"


__all__ = ["check"]
