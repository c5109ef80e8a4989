"""``cqels-opt bench --keep DIR``: a report is kept when it is done, so that an hour that breaks off goes on from the last one."""

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
class Kept:
    """A folder of reports, each of the options and of the commit that made it; with no folder nothing is kept."""

    folder: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    tell: Callable[[str], None] = lambda text: None

    def once(self, name: str, make: Callable[[], Report]) -> Report:
        """The report that is kept under a name, or what ``make`` gives, kept from then on."""
        if self.folder is None:
            return make()
        path, of = self.folder / f"{Path(name).stem}.json", {**self.options, "scenario": name, **versions(("cqels-opt",))}
        there = self._read(path, of)
        if there is not None:
            return there
        report = make()
        self.folder.mkdir(parents=True, exist_ok=True)
        taken = datetime.now(UTC).isoformat(timespec="minutes")
        disk.write_atomically(path, json.dumps({"of": of, "taken": taken, "report": report}).encode())
        return report

    def _read(self, path: Path, of: Mapping[str, Any]) -> Report | None:
        """What a file keeps, unless it is of other options or of another commit, or the code has changed since its commit."""
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError:
            self.tell(f"{path}: no JSON; run again")
            return None
        if found["of"] != of or (of["commit"] or "").endswith("-dirty"):
            self.tell(f"{path}: of other options or of other code; run again")
            return None
        self.tell(f"{path}: kept from {found['taken']}")
        report: Report = found["report"]
        return report
