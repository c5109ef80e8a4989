"""The extension of Spark's optimizer (``scala/``) as a jar: ``python -m cqels_opt.spark.extension cqels-opt.jar``.

It uses parts of Catalyst that differ between versions of Spark. So it is compiled for the Spark that is installed, by the Scala compiler
among Spark's jars, and no registry is needed. This module imports no pyspark.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from cqels_opt.errors import CqelsOptError, InputError, RunError
from cqels_opt.spark.class_archive import java_launcher, spark_home
from cqels_opt.spark.jvm import FAST_START
from cqels_opt.storage.cache_folder import cache_folder

EXTENSION = "org.apache.spark.sql.cqels.CqelsExtension"
"""The value of ``spark.sql.extensions``."""

ENABLED = "spark.cqels.enabled"
"""Whether the extension orders joins, by default true."""

_SOURCES = Path(__file__).parent / "scala"


def spark_extension() -> str:
    """The path of the extension's jar, for ``spark.jars``. The first call for a version of Spark compiles it into the cache folder.

    For example::

        builder = SparkSession.builder.config("spark.jars", cq.spark_extension())
        spark = builder.config("spark.sql.extensions", "org.apache.spark.sql.cqels.CqelsExtension").getOrCreate()
    """
    jars = _jars()
    names = "\n".join(sorted(jar.name for jar in jars.glob("spark-*.jar")))
    key = hashlib.sha256(b"\0".join((names.encode(), *(source.read_bytes() for source in _sources()))))
    jar = cache_folder() / f"spark-extension-{key.hexdigest()[:16]}.jar"
    if not jar.exists():
        build(jar)
    return str(jar)


def build(jar: Path) -> None:
    """Compiles the extension. InputError without Spark or Java, RunError if it cannot be compiled for this Spark."""
    jars, java = _jars(), java_launcher()
    if java is None:
        raise InputError("the Spark extension is compiled with Java, and there is none on PATH: install Java 17 or newer")
    if not os.access(java, os.X_OK):
        raise InputError(f"the Spark extension is compiled with Java, and JAVA_HOME has no bin/java: {java} cannot be run")
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
        made = Path(folder, "made.jar")
        compiler = [java, FAST_START, "-cp", str(jars / "*"), "scala.tools.nsc.Main", "-usejavacp", "-d", str(made)]
        done = subprocess.run([*compiler, *map(str, _sources())], capture_output=True, text=True, check=False)
        if done.returncode or not made.exists():
            raise RunError(
                f"the extension cannot be compiled for the Spark in {jars.parent}: {(done.stdout + done.stderr).strip()}"
            )
        made.replace(jar)


def _sources() -> list[Path]:
    return sorted(_SOURCES.glob("*.scala"))


def _jars() -> Path:
    home = spark_home()
    if home is None or not (home / "jars").is_dir():
        raise InputError(
            "the Spark extension is compiled for the Spark that is installed, and there is none: pip install pyspark"
        )
    if any((home / "jars").glob("spark-core_*-3.*.jar")):
        raise InputError(f"the Spark extension needs Spark 4, and {home} has Spark 3")
    return home / "jars"


def main(words: list[str]) -> int:
    """``python -m cqels_opt.spark.extension JAR``: writes the jar."""
    if len(words) != 1 or words[0].startswith("-"):
        print("usage: python -m cqels_opt.spark.extension JAR", file=sys.stderr)
        return 2
    try:
        build(Path(words[0]).absolute())
    except CqelsOptError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, InputError) else 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
