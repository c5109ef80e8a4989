"""Spark's classes as a memory image in the user's cache folder, so that a JVM need not read and verify them again.

Half of what a JVM does until the first answer is to read and verify classes. The first JVM of a Java and a Spark that runs a query
writes the archive while it exits, after the command has ended; later ones map it (class data sharing, JEP 350). A JVM ignores an
archive that another Java or other jars have made, and nearly each one that is damaged; of the others it ends (:meth:`Jvm.connect`).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from cqels_opt.storage.cache_folder import cache_folder

ABANDONED = 600.0
"""Seconds after which another JVM makes an archive that is not finished: the JVM that began it was killed, or still runs."""
UNUSED = 30 * 86_400.0
"""Seconds without use after which an archive is deleted when another is made: Spark or Java was updated, or the environment was deleted."""
_QUIET = "-Xlog:disable -Xlog:all=warning:stderr"  # by default the JVM prints warnings to standard output, among the answers
USE = "-XX:SharedArchiveFile="
"""The option that names an archive to map."""
_OWN = ("SharedArchiveFile", "ArchiveClassesAtExit", "-Xshare", "AutoCreateSharedArchive")
_SETTINGS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
_NAME = "spark-classes-"
_SOURCES = ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")


def archive_options(make: bool, environment: Mapping[str, str] = os.environ) -> str:
    """The options for a new JVM: to use the archive or, with ``make``, to write it if there is none.

    Empty if the user's own options name an archive, and where none can be kept.
    """
    if any(option in environment.get(source, "") for source in _SOURCES for option in _OWN):
        return ""
    with suppress(OSError, RuntimeError):  # no permission, or no home folder: only the start takes longer
        archive = archive_file(environment)
        if archive is not None and _usable(archive):
            return f"{_QUIET} {USE}{archive}"
        if archive is not None and make and _claimed(archive):
            return f"{_QUIET} -XX:ArchiveClassesAtExit={archive}"
    return ""


def archive_file(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The archive of the Java that Spark starts and of its jars. None without them, or if their class path cannot be archived."""
    launcher = java_launcher(environment)
    spark, folder = spark_home(environment), cache_folder()
    if (
        launcher is None or spark is None or _has_settings(spark, environment) or " " in str(folder)
    ):  # Spark splits options at blanks
        return None
    java = Path(launcher).resolve()
    release = java.parent.parent / "release"
    described = release.read_bytes() if release.is_file() else b""
    jars = spark / "jars"
    key = b"\0".join((os.fsencode(java), described, os.fsencode(jars), str(jars.stat().st_mtime_ns).encode()))
    return folder / f"{_NAME}{hashlib.sha256(key).hexdigest()[:16]}.jsa"


def java_launcher(environment: Mapping[str, str] = os.environ) -> str | None:
    """The Java that Spark starts: in ``JAVA_HOME``, even if that has none, or else on ``PATH``."""
    home = environment.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java", path=environment.get("PATH", ""))


def spark_home(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where Spark is: ``SPARK_HOME``, or else the package pyspark."""
    if "SPARK_HOME" in environment:
        return Path(environment["SPARK_HOME"])
    package = find_spec("pyspark")
    for folder in map(Path, (package and package.submodule_search_locations) or ()):
        for home in (folder / "spark-distribution", folder, folder.parents[1]):
            if (home / "bin" / "spark-submit").is_file():
                return home
    return None


def _has_settings(spark: Path, environment: Mapping[str, str]) -> bool:
    """Whether a folder of settings precedes the jars in the class path: archives are of jars only."""
    return any(name in environment for name in _SETTINGS) or (spark / "conf").is_dir()


def is_complete(archive: Path) -> bool:
    """Whether the JVM has finished an archive: it writes the first bytes last."""
    with suppress(FileNotFoundError), archive.open("rb") as file:
        return any(file.read(4))
    return False


def _usable(archive: Path) -> bool:
    """Whether an archive is complete. One that is used is kept."""
    complete = is_complete(archive)
    if complete:
        with suppress(PermissionError):  # of another user, or read-only
            os.utime(archive)
    return complete


def _claimed(archive: Path) -> bool:
    """Whether this process makes the archive: the first one, for some time. Its JVM replaces the empty file."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    try:
        archive.open("xb").close()
    except FileExistsError:
        if time.time() - archive.stat().st_mtime < ABANDONED:
            return False
        os.utime(archive)
    for other in archive.parent.glob(f"{_NAME}*.jsa"):
        if time.time() - other.stat().st_mtime > UNUSED:
            other.unlink(missing_ok=True)
    return True
