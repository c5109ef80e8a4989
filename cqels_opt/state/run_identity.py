"""The identity of a checkpoint: the queries, data and options of its run, and whether another run may continue it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cqels_opt.errors import CheckpointError, option
from cqels_opt.storage import checksum, disk, documents

VERSION = 4
NAME = "cqels-opt.json"


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a checkpoint.

    ``query`` has the queries by name, or a join. They may change if the user allows it and ``windows`` stay; binding slots are kept for
    their ``patterns`` (the name of the slot, and the name in the query). All of ``others`` must stay: static data, lateness, and
    everything else that answers depend on. Of several queries those ``feeding`` others must stay as well, because windows hold their
    graphs.
    """

    query: Any = None
    windows: Any = None
    patterns: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, Any] = field(default_factory=dict)
    feeding: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Identifies a query in commit records."""
        return checksum.text_digest(json.dumps(self.query))[:16]


ANONYMOUS = Identity()
"""The identity of a run whose query is not compared."""


def _document(folder: Path) -> dict[str, Any]:
    """The document of the identity of a checkpoint; empty if none can be read."""
    try:
        found: dict[str, Any] = documents.decode(NAME, disk.read(folder / NAME))
    except (OSError, ValueError):
        return {}
    return found


def run_of(folder: Path) -> str | None:
    """The name of the run that a folder is the checkpoint of, if it is one."""
    return _document(folder).get("run")


def queries_of(folder: Path) -> list[str]:
    """The names of the queries that a checkpoint was first started with, in the order that the run has given them."""
    found = _document(folder).get("identity", {}).get("query")
    return [*found] if isinstance(found, dict) else []


def key_of(folder: Path) -> str | None:
    """The key of the ids of terms in a checkpoint; None if there is no checkpoint, or no key."""
    return _document(folder).get("key") or None  # claiming the checkpoint reports what is damaged


def read_identity(folder: Path) -> tuple[dict[str, Any], Identity]:
    """The document of a checkpoint, and its identity. CheckpointError if it is missing, damaged or of another version."""
    path = folder / NAME
    if not path.exists():
        raise CheckpointError(f"{folder}: the checkpoint is damaged: {NAME} is missing; use another folder")
    content = disk.read(path)
    try:
        found = documents.decode(NAME, content)
        version, _, before = found["version"], str(found["run"]), Identity(**found["identity"])
    except (ValueError, KeyError, TypeError) as error:
        if (version := _version_without_digest(content)) is None:
            raise CheckpointError(f"{path}: the checkpoint is damaged ({error}); use another folder") from error
    if version != VERSION:
        raise CheckpointError(f"{folder}: the checkpoint is of version {version}, this is {VERSION}; use another folder")
    return found, before


def _version_without_digest(content: bytes) -> Any:
    """The version of an identity that cannot be decoded, as those of earlier formats; None if there is none."""
    try:
        return json.loads(content)["version"]
    except (ValueError, KeyError, TypeError):
        return None


def difference(before: Identity, now: Identity, changed: bool | None) -> str | None:
    """The reason why a run cannot continue from the state of another one; None: it can."""
    for key, value in now.others.items():
        if before.others.get(key) != value:
            return f"its {key} differs; use another folder"
    if before.query == now.query and before.windows == now.windows:
        return None
    names, others = ([*of.query] if isinstance(of.query, Mapping) else [] for of in (before, now))
    if {*names} != {*others}:
        noun = "query is" if len(names) == 1 else "queries are"
        named = f"{', '.join(sorted(names))}, not {', '.join(sorted(others))}"
        ways = "use that name" if len(names) == len(others) else "run.add and run.remove change the queries of a run; use these"
        return f"its {noun} named {named} (the name of a query is that of its file, in Python its id); {ways}, or another folder"
    changes = [name for name in names if before.query[name] != now.query[name]] if len(names) > 1 else []
    differs = f"its query {changes[0]} differs" if changes else "its query differs"
    if before.windows != now.windows:
        others = [name for name in names if before.windows.get(name) != now.windows.get(name)] if len(names) > 1 else []
        same = before.query == now.query
        found = "has other windows (other bounds, or another profile)" if same else "differs, and has other windows"
        return f"its query{f' {others[0]}' if others else ''} {found}; use another folder"
    if lacking := [name for pattern, name in now.patterns.items() if pattern not in before.patterns]:
        differ = "its queries differ" if len(changes) > 1 else differs
        return f"{differ}, and nothing was kept for {', '.join(dict.fromkeys(lacking))}; use another folder"
    if other := [name for name in now.feeding if before.query.get(name) != now.query.get(name)]:
        return f"the query {other[0]} differs, whose graphs others read; use another folder"
    if changed is None:
        return f"{differs}; use another folder"
    if not changed:
        continuing = option("continue_changed=True", "--continue-changed")
        return f"{differs}; {continuing} continues with the changed one (its windows are the same), or use another folder"
    return None
