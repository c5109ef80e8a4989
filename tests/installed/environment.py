"""``make test-wheel``: the tests against the package as pip installs it, in an empty environment outside the checkout.

An sdist is built of what git knows, a wheel of that sdist, and the wheel is installed into a new virtual environment. The tests are
copied beside it, so that no import finds the checkout. ``--pyspark VERSION`` takes that one where pip would take the newest.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = "files.txt"
"""Beside the copied tests: the files of the package that git knows, a line each, as paths in an environment."""
EXTRAS = "[bench,demo,spark]"
WITH = ("pytest", "hypothesis")
ROOMS = ("cqels_opt", "plans", "stats", "bench")
BESIDE = ("tests", "docs", "examples", "README.md", "CHANGELOG.md", "mkdocs.yml", "pyproject.toml")


def environment() -> dict[str, str]:
    """That of this process without what would lead to other packages."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}


def run(words: Sequence[str | Path], folder: Path) -> None:
    """Runs a command there; what it says is shown where it fails."""
    done = subprocess.run(
        [*map(str, words)], cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}\n{' '.join(map(str, words))} failed in {folder}")


def known_files() -> list[str]:
    """The files that git knows, or would take; symlinks to folders are not among them."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted(name for name in names if name and (ROOT / name).exists())


def copy(names: Sequence[str], folder: Path) -> None:
    """Copies files of the checkout, and its symlinks as such."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)


def in_package(names: Sequence[str]) -> list[str]:
    """Those of the package, by their paths in it: the rooms at the top and the notebooks are inside of it."""
    names = [name.replace("examples/notebooks/", "cqels_opt/notebooks/") for name in names]
    inside = [name for name in names if name.split("/")[0] in ROOMS and not (ROOT / name).is_symlink()]
    return [name if name.startswith("cqels_opt/") else f"cqels_opt/{name}" for name in inside]


def for_tests() -> list[str]:
    """What the tests need beside the package, with the ranges of ``pyproject.toml``."""
    dev = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]["dev"]
    return [wanted for wanted in dev if re.split(r"[^\w-]", wanted)[0] in WITH]


def build(names: Sequence[str], folder: Path) -> Path:
    """The wheel, built of the sdist."""
    copy(names, folder / "source")
    run([sys.executable, "-m", "build", "--outdir", folder / "dist", folder / "source"], folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    assert len(list((folder / "dist").glob("*.tar.gz"))) == 1
    shutil.rmtree(folder / "source")
    return wheel


def install(wheel: Path, folder: Path, pyspark: str | None) -> Path:
    """A new environment with the wheel: first with its data alone, which does for the demo, then with what the tests need. Its programs."""
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    pip: list[str | Path] = [programs / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    only = [f"pyspark=={pyspark}"] if pyspark else []
    run([*pip, f"{wheel}[demo]"], folder)
    run([programs / "python", "-m", "pip", "check"], folder)
    without_spark(programs, folder / "without")
    run([*pip, f"{wheel}{EXTRAS}", *only, *for_tests()], folder)
    return programs


def without_spark(programs: Path, folder: Path) -> None:
    """The commands of a user who has not installed PySpark."""
    folder.mkdir()
    run([programs / "python", "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('pyspark') is not None)"], folder)
    run([programs / "cqels-opt", "bench", "--list"], folder)
    run([programs / "cqels-opt", "demo", "--days", "1", "--out", "demo"], folder)
    notebooks = sorted(file.name for file in (folder / "demo" / "notebooks").glob("*.ipynb"))
    if len(notebooks) != 3:
        raise SystemExit(f"the demo left {notebooks}, not three notebooks")
    refused = subprocess.run(
        [programs / "cqels-opt", "run", "demo/fog.rq"], cwd=folder, env=environment(), capture_output=True, text=True
    )
    if (refused.returncode, refused.stdout) != (2, "") or "pip install 'cqels-opt[spark]'" not in refused.stderr:
        raise SystemExit(f"without PySpark, run ended with {refused.returncode}:\n{refused.stdout}{refused.stderr}")
    shutil.rmtree(folder)


def main(words: Sequence[str] | None = None) -> int:
    """The exit code of the tests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pyspark", metavar="VERSION")
    parser.add_argument("tests", nargs="+")
    given = parser.parse_args(words)
    names = known_files()
    with tempfile.TemporaryDirectory(prefix="cqels-opt-wheel-") as scratch:
        folder = Path(scratch).resolve()
        print(f"building and installing in {folder}", file=sys.stderr)
        programs = install(build(names, folder), folder / "environment", given.pyspark)
        beside = folder / "beside"
        copy([name for name in names if name.split("/")[0] in BESIDE], beside)
        (beside / FILES).write_text("\n".join(in_package(names)), encoding="utf-8")
        found = {**environment(), "PATH": os.pathsep.join([str(programs), os.environ["PATH"]])}
        return subprocess.run([programs / "pytest", *given.tests], cwd=beside, env=found).returncode


if __name__ == "__main__":
    sys.exit(main())
