"""The environment of a measurement: the machine, and the versions of the software."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from cqels_opt.cli.java import major_version

_TICKS = os.sysconf("SC_CLK_TCK")

PACKAGES = ("cqels-opt", "pyspark", "pyarrow", "numpy", "pandas", "duckdb", "pyoxigraph", "hdrhistogram")


def circumstances(*packages: str) -> dict[str, Any]:
    """The machine, and the versions of packages (default: all that contenders use), for the JSON of a study."""
    return {"machine": machine(), "versions": versions(packages or PACKAGES)}


def machine() -> dict[str, Any]:
    """Processor, cores, memory, load, system, Python and Java."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": _java(),
    }


def megabytes(what: str) -> float:
    """Memory of this process (MB) by its name in Linux: ``VmHWM`` peak, ``RssAnon`` anonymous, ``RssFile`` mapped files."""
    with Path("/proc/self/status").open(encoding="ascii") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(f"{what}:"))


def descendants(process: int) -> Iterator[int]:
    """The descendants of a process."""
    below: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        try:
            if path.name.isdecimal():
                below.setdefault(int((path / "stat").read_text().rsplit(")", 1)[1].split()[1]), []).append(int(path.name))
        except OSError:  # it has ended in the meantime
            continue
    waiting = [process]
    while waiting:
        found = below.get(waiting.pop(), [])
        waiting += found
        yield from found


class CpuSeconds(NamedTuple):
    """CPU seconds of a process, of the JVMs below it, and of the other processes below it: Spark's Python workers."""

    driver: float
    jvm: float
    workers: float


def cpu_seconds(process: int) -> CpuSeconds:
    """The CPU seconds of a process and of its descendants since they started."""
    used = [0.0, 0.0, 0.0]
    for number in (process, *descendants(process)):
        try:
            name, _, rest = Path(f"/proc/{number}/stat").read_text(encoding="utf-8").partition("(")[2].rpartition(") ")
            own = time.clock_gettime(
                ~number << 3 | 2
            )  # the CPU clock of the process, as clock_getcpuclockid(3) of glibc numbers it
        except OSError:  # it has ended in the meantime
            continue
        waited_for = sum(int(ticks) / _TICKS for ticks in rest.split()[13:15])
        used[0 if number == process else 1 if name == "java" else 2] += own + waited_for
    return CpuSeconds(*used)


def versions(packages: tuple[str, ...]) -> dict[str, str | None]:
    """Versions by package; None if not installed. Includes ``commit`` if the code is in a git repository."""
    found: dict[str, str | None] = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    found["commit"] = _output_of("git", "-C", str(Path(__file__).resolve().parent), "describe", "--always", "--dirty")
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _java() -> int | None:
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else "java"
    return major_version(_output_of(command, "-version") or "")


def _output_of(command: str, *words: str) -> str | None:
    """The output of a program; None if it does not exist or fails."""
    found = shutil.which(command)
    if found is None:
        return None
    done = subprocess.run([found, *words], capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip() if done.returncode == 0 else None
