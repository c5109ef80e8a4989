"""``cqels-opt bench --keep DIR``: stores each finished report, so that an interrupted run resumes after the last one."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cqels_opt.bench.circumstances import versions
from cqels_opt.storage import disk

Report = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StoredReports:
    """A folder of reports, each with the options, files and commit that produced it; without a folder nothing is stored."""

    folder: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    notify: Callable[[str], None] = lambda text: None

    def once(self, name: str, make: Callable[[], Report], files: Iterable[Path] = ()) -> Report:
        """The report stored under a name, or else the result of ``make``, which is then stored. It depends on the content of ``files``."""
        if self.folder is None:
            return make()
        path = self.folder / f"{_file_name(name)}.json"
        digests = {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file()}
        of = {**self.options, "scenario": name, "files": digests, **versions(("cqels-opt",))}
        stored = self._read(path, of)
        if stored is not None:
            return stored
        report = make()
        self.folder.mkdir(parents=True, exist_ok=True)
        taken = datetime.now(UTC).isoformat(timespec="minutes")
        disk.write_atomically(path, json.dumps({"of": of, "taken": taken, "report": report}, allow_nan=False).encode())
        return report

    def _read(self, path: Path, of: Mapping[str, Any]) -> Report | None:
        """The stored report, unless it has other options, files or another commit, or the code has uncommitted changes."""
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError:
            self.notify(f"{path}: no JSON; run again")
            return None
        if found["of"] != of or (of["commit"] or "").endswith("-dirty"):
            self.notify(f"{path}: of other options, files or code, or of another machine; run again")
            return None
        self.notify(f"{path}: kept from {found['taken']}")
        report: Report = found["report"]
        return report


def as_json(value: Any) -> Any:
    """A report with None instead of infinities and NaN, which JSON does not have."""
    if isinstance(value, Mapping):
        return {key: as_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _file_name(name: str) -> str:
    """The stem of a scenario's file and a digest of its path, so that files of equal stems differ; the name of any other scenario."""
    path = Path(name)
    return f"{path.stem}-{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}" if path.suffix == ".toml" else name
