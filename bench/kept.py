"""``cqels-opt bench --keep DIR``: stores each finished report, so that an interrupted run resumes after the last one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cqels_opt.bench.circumstances import versions
from cqels_opt.storage import disk

Report = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StoredReports:
    """A folder of reports, each with the options and the commit that produced it; without a folder nothing is stored."""

    folder: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    notify: Callable[[str], None] = lambda text: None

    def once(self, name: str, make: Callable[[], Report]) -> Report:
        """The report stored under a name, or else the result of ``make``, which is then stored."""
        if self.folder is None:
            return make()
        path, of = self.folder / f"{Path(name).stem}.json", {**self.options, "scenario": name, **versions(("cqels-opt",))}
        stored = self._read(path, of)
        if stored is not None:
            return stored
        report = make()
        self.folder.mkdir(parents=True, exist_ok=True)
        taken = datetime.now(UTC).isoformat(timespec="minutes")
        disk.write_atomically(path, json.dumps({"of": of, "taken": taken, "report": report}).encode())
        return report

    def _read(self, path: Path, of: Mapping[str, Any]) -> Report | None:
        """The stored report, unless it has other options or another commit, or the code has uncommitted changes."""
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError:
            self.notify(f"{path}: no JSON; run again")
            return None
        if found["of"] != of or (of["commit"] or "").endswith("-dirty"):
            self.notify(f"{path}: of other options or of other code; run again")
            return None
        self.notify(f"{path}: kept from {found['taken']}")
        report: Report = found["report"]
        return report
