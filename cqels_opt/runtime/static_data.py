"""The static data of a run: files that are loaded into a store at its first start, or a store that exists."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from cqels_opt.errors import CheckpointError, InputError, RunWarning, StoreError
from cqels_opt.lod import object_store_cache
from cqels_opt.lod.load import LoadReport
from cqels_opt.lod.locations import is_uri, place_of
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.snapshots import content_of, hold, version_at
from cqels_opt.lod.update import extend
from cqels_opt.rdf.ids import IdScheme
from cqels_opt.rdf.static import StaticSource
from cqels_opt.storage import disk, documents
from cqels_opt.trace.figures import plural

STATIC = "static"
"""The folder of an engine's static data, in that of what it registers."""
SOURCES = "sources.json"
REJECTED = "rejected.jsonl"
Load = Callable[..., LoadReport]
"""Loads sources into a folder: :func:`cqels_opt.lod.load.load` with a crew."""


def static_sources(paths: Sequence[Path], graphs: Sequence[tuple[str, Path]]) -> list[StaticSource]:
    """The files of the default graph and of named graphs."""
    return [*(StaticSource(path, None) for path in paths), *(StaticSource(path, iri) for iri, path in graphs)]


def static_store(
    load: Load,
    folder: Path,
    sources: Sequence[StaticSource],
    on_error: Literal["fail", "skip"],
    scheme: IdScheme | None = None,
    store: str | os.PathLike[str] | None = None,
) -> Path:
    """The store of a run, loaded below ``folder`` on the first start. CheckpointError if the files, or the ``store`` to which they are
    added, have changed since.

    Warns of lines that ``on_error="skip"`` leaves out, and writes the first of them to ``REJECTED``, as :class:`DeadLetters` does.
    """
    target, record = folder / "store", folder / SOURCES
    facts = json.loads(json.dumps([[str(s.path), s.graph, *_facts(s.path)] for s in sources]))
    if store is not None:
        facts.append([str(store), version_at(resolved_store(store)).fingerprint])
    if record.exists() and target.exists():
        if _known_facts(record) != facts:
            raise CheckpointError(f"{folder.parent}: the checkpoint was made with other static data; use another folder")
        return target
    disk.make_folder(folder)
    report = load(sources, target, scheme=scheme, on_error=on_error, durable=False)
    if report.skipped:
        lines = ({"file": bad.path, "line": bad.line, "reason": bad.message} for bad in report.failures)
        disk.write_atomically(folder / REJECTED, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode())
        number = plural(report.skipped, "line")
        warnings.warn(f"{number} of the static data left out, the first: {report.failures[0]}", RunWarning, stacklevel=2)
    disk.sync_file_system(folder)
    disk.write_atomically(record, documents.encode(SOURCES, facts))
    return target


def extended(
    store: str | os.PathLike[str], sources: Sequence[StaticSource], target: Path, *, scheme: IdScheme | None, **options: Any
) -> LoadReport:
    """Makes the store of a run of an existing one and of files, as a :data:`Load`. The ``scheme`` is that of the existing one."""
    with tempfile.TemporaryDirectory(dir=target.parent) as reader:  # the version stays while its files are linked
        return extend(Path(leased_store(Path(reader), store)), sources, target, **options)


def _known_facts(record: Path) -> object:
    content = disk.read(record)
    with documents.naming_damage(record):
        return json.loads(content) if content.startswith(b"[") else documents.decode(SOURCES, content)  # without a digest: older


def _facts(path: Path) -> tuple[int, int]:
    if not path.exists():
        raise InputError(f"{path}: no such file")
    files = [file.stat() for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
    return sum(file.st_size for file in files), sum(file.st_mtime_ns for file in files)


def resolved_store(place: str | os.PathLike[str]) -> Path | str:
    """An existing store as a program references it: the folder of its newest version, or its URI with the current fingerprint."""
    found = place_of(place) if isinstance(place, str) else Path(place)
    return object_store_cache.pinned(found) if isinstance(found, str) else version_at(open_store(found.absolute()).path).place


def leased_store(reader: Path, store: str | os.PathLike[str]) -> Path | str:
    """The newest version of a store, leased for as long as the reader's folder exists."""
    while True:
        found = resolved_store(store)
        try:
            hold(reader, [found])
        except StoreError:  # it was replaced meanwhile
            if resolved_store(store) == found:
                raise
        except OSError:  # the store is read-only: the caller reports that
            return found
        else:
            return found


def fingerprint(store: Path | str) -> str:
    """The identity of a store's content, before any update."""
    return open_store(store).fingerprint if is_uri(store) else content_of(version_at(store).lineage)
