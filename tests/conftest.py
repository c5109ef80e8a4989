"""What all rooms' tests share: one Spark session for the whole run, and the real data where it is there.

``make test`` runs them in four processes: one has the Spark session, one the tests that start JVMs of their own, the others all else.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The same examples in every run, so that a change is judged by what it changes; HYPOTHESIS_PROFILE=default looks for new ones.
settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# Temporary files lie in memory where there is room: half of what a test without Spark waits for is a disk, which syncs and deletes.
MEMORY, ROOM = Path("/dev/shm"), 8 << 30
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

# No test depends on what the machine's user has measured: constants that a test does not keep itself are the defaults.
_CACHE = tempfile.TemporaryDirectory(prefix="cqels-opt-tests-cache-")
os.environ["XDG_CACHE_HOME"] = _CACHE.name

# The ids of terms are the same in every run, and in the processes that tests start: a random key shows in the order of equal lines.
os.environ.setdefault("CQELS_OPT_TERM_KEY", "30303565656430666330653130303031")

# Collections are rarer than by default: thousands of tests in one process allocate much and leave few cycles.
gc.set_threshold(20_000, 20, 20)

# JVMs of tests live for seconds and have little memory: they compile once and lightly, collect without threads of their own, and take
# Spark's classes from an archive, where ``make test`` has made one (tests/spark/class_archive.py).
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
if (ARCHIVE := Path(sys.prefix) / "spark-classes.jsa").exists():
    SHORT_LIVED += f" -Xlog:disable -XX:SharedArchiveFile={ARCHIVE}"
os.environ["SPARK_SUBMIT_OPTS"] = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {SHORT_LIVED}".strip()

# ``make test`` takes a sample: without what is marked long (a case of it takes over four seconds), and the first cases of each test of the
# rooms whose tests run queries; ``make test-all`` has everything.
CASES = 2
"""Cases of a test in the sample."""
WHOLE = ("query", "rdf", "relational", "trace", "windows", "tests")
"""Folders whose tests are short, and are all in the sample."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--all`` runs long tests and every seed."""
    parser.addoption("--all", action="store_true", help="long tests, and every seed of the property tests")


def sample(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests of the sample, and the others."""
    taken, left, seen = list[pytest.Item](), list[pytest.Item](), Counter[str]()
    for item in items:
        name = item.nodeid.partition("[")[0]
        seen[name] += 1
        mine = seen[name] <= CASES or item.path.parent.name in WHOLE
        (left if item.get_closest_marker("long") or not mine else taken).append(item)
    return taken, left


SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def shares_a_fixture(item: pytest.Item) -> bool:
    """Whether tests of its module share a fixture, which each process would make again."""
    found = getattr(item, "_fixtureinfo", None)
    return found is not None and any(every[-1].scope == "module" for every in found.name2fixturedefs.values())


@pytest.hookimpl(wrapper=True)  # so that it is done before xdist looks for groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """One process takes the tests of the one Spark session, one those that start Spark in processes of their own, and one all tests of a
    module that share a fixture.

    And the one skip there is: tests of the real data sets, where those are absent.
    """
    if not config.getoption("--all"):
        items[:], left_out = sample(items)
        config.hook.pytest_deselected(items=left_out)
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif item.path.parent.name in ("spark", "cluster"):
            item.add_marker(pytest.mark.xdist_group("processes"))
        elif shares_a_fixture(item):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    absent = pytest.mark.skip(reason="the real data sets are not beside the project")
    for item in items:
        if item.get_closest_marker("needs_shared_data") and not SHARED_DATA.is_dir():
            item.add_marker(absent)
    yield


def pytest_collection_finish() -> None:
    """What is there when tests begin stays: no later collection looks through it (0.6 s each otherwise, and some tests ask for many)."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of the real data sets; its users are marked ``needs_shared_data``."""
    return SHARED_DATA


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one small Spark session of the test run: that of the commands, with what they set in a batch only set for good."""
    from cqels_opt.spark.session import IN_A_BATCH, make_session

    with pytest.MonkeyPatch.context() as patch:
        # The driver sends its Python's path to the executors from this variable; the setting alone is not read in every version.
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = make_session("local[2]", tmp_path_factory.mktemp("session"))
        for key, value in IN_A_BATCH.items():
            session.conf.set(key, value)
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()
