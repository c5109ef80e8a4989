"""The cost model's constants of this machine: measured once, kept in the user's cache folder, and used by later runs.

Only ``cqels-opt calibrate`` measures, because other load on the machine would be measured too. A file that is damaged, or that another
machine or version wrote, is ignored.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from cqels_opt.plans import Constants
from cqels_opt.storage import disk
from cqels_opt.storage.cache_folder import cache_folder

FORMAT = 1
NAMES = tuple(f.name for f in fields(Constants))
SPARK_NAMES = ("job", "stage", "shuffle", "broadcast")
Why = Literal["", "none", "damaged", "stale"]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Constants and their origin: ``measured`` is the time of the measurement (UTC; None: they are the committed defaults, for the reason
    ``why``), ``names`` are those that were measured."""

    constants: Constants = field(default_factory=Constants)
    measured: str | None = None
    names: tuple[str, ...] = ()
    why: Why = ""

    @property
    def origin(self) -> str:
        """The origin of the constants, as text."""
        if self.measured is None:
            return f"committed defaults{_REASONS[self.why]}"
        rest = [name for name in NAMES if name not in self.names]
        return f"measured on this machine, {self.measured}" + (f" (defaults: {', '.join(rest)})" if rest else "")

    def text(self) -> str:
        """The origin and each constant, as text."""
        found = asdict(self.constants)
        return f"constants: {self.origin}\n  " + ", ".join(f"{name} {seconds_text(found[name])}" for name in NAMES)

    def as_json(self) -> dict[str, Any]:
        """The same as JSON values; constants are in seconds."""
        return {"origin": self.origin, "measured": self.measured, "seconds": asdict(self.constants)}


_REASONS: Mapping[Why, str] = {
    "": "",
    "none": "; `cqels-opt calibrate` measures this machine's",
    "damaged": "; the measured ones are damaged, `cqels-opt calibrate` measures them again",
    "stale": "; the measured ones are of another machine or version, `cqels-opt calibrate` measures them again",
}


def seconds_text(seconds: float) -> str:
    """Seconds with three digits in a unit that fits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def cache_file() -> Path:
    """Where the measured constants are kept."""
    return cache_folder() / "constants.json"


def fingerprint() -> dict[str, str]:
    """What a machine's constants depend on: its processors, and the versions of Python and libraries."""
    versions = {name: version(name) for name in ("cqels-opt", "numpy")} | {"pyspark": _version_of_spark()}
    return {"processor": _processor(), "cores": str(os.cpu_count()), "python": platform.python_version(), **versions}


def _version_of_spark() -> str:
    """That of the package; empty if it is not installed, or if Spark is that of a cluster."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def known(file: Path | None = None) -> Calibration:
    """The constants of this machine: the measured ones, else the defaults."""
    path = file or cache_file()
    if not path.exists():
        return Calibration(why="none")
    try:
        found = json.loads(disk.read(path))
        stale = found["format"] != FORMAT or found["fingerprint"] != fingerprint()
        measured, seconds = str(found["measured"]), {str(k): float(v) for k, v in found["seconds"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Calibration(why="damaged")
    if stale:
        return Calibration(why="stale")
    if not set(seconds) <= set(NAMES) or not all(isfinite(v) and v >= 0 for v in seconds.values()):
        return Calibration(why="damaged")
    return Calibration(replace(Constants(), **seconds), measured, tuple(seconds))


def keep(seconds: Mapping[str, float], measured: str, file: Path | None = None) -> Path:
    """Writes measured constants for later runs, atomically. Returns the file."""
    path = file or cache_file()
    disk.make_folder(path.parent)
    content = {"format": FORMAT, "fingerprint": fingerprint(), "measured": measured, "seconds": dict(seconds)}
    disk.write_atomically(path, json.dumps(content, indent=1).encode())
    return path
