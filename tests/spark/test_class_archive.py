from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from cqels_opt.spark.class_archive import ABANDONED, UNUSED, archive_file, archive_options

from .command import call
from .small_world import MET, write_query, write_world


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A Java and a Spark that are only files, and an empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "java" / "bin").mkdir(parents=True)
    (tmp_path / "java" / "bin" / "java").touch()
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    return {"JAVA_HOME": str(tmp_path / "java"), "SPARK_HOME": str(tmp_path / "spark")}


def archive_of(environment: dict[str, str]) -> Path:
    found = archive_file(environment)
    assert found is not None
    return found


def test_the_first_jvm_makes_the_archive_and_later_ones_use_it(environment: dict[str, str]) -> None:
    archive = archive_of(environment)
    assert archive_options(False, environment) == ""
    assert archive_options(True, environment).endswith(f"-XX:ArchiveClassesAtExit={archive}")
    assert archive_options(True, environment) == ""  # it is being made
    archive.write_bytes(b"\0\0\0\0rest")  # the JVM writes the first bytes last
    assert archive_options(True, environment) == ""
    archive.write_bytes(b"\xca\xfe\xba\xberest")
    for make in (False, True):
        assert archive_options(make, environment).endswith(f"-XX:SharedArchiveFile={archive}")


def test_an_archive_that_was_never_finished_is_made_again(environment: dict[str, str]) -> None:
    archive_options(True, environment)
    archive = archive_of(environment)
    before = time.time() - ABANDONED - 1
    os.utime(archive, (before, before))
    assert "ArchiveClassesAtExit" in archive_options(True, environment)
    assert archive_options(True, environment) == ""


def test_archives_that_nobody_uses_are_deleted(environment: dict[str, str]) -> None:
    folder = archive_of(environment).parent
    folder.mkdir(parents=True)
    for name, age in (
        ("spark-classes-old.jsa", UNUSED + 60),
        ("spark-classes-new.jsa", UNUSED - 60),
        ("constants.json", UNUSED + 60),
    ):
        (folder / name).write_bytes(b"x")
        os.utime(folder / name, (time.time() - age,) * 2)
    archive_options(True, environment)
    assert {file.name for file in folder.iterdir()} == {"spark-classes-new.jsa", "constants.json", archive_of(environment).name}


def test_another_java_or_other_jars_have_another_archive(environment: dict[str, str], tmp_path: Path) -> None:
    names = [archive_file(environment)]
    (tmp_path / "java" / "release").write_text("JAVA_VERSION=21")
    names.append(archive_file(environment))
    os.utime(tmp_path / "spark" / "jars", (1, 1))
    names.append(archive_file(environment))
    (tmp_path / "other" / "jars").mkdir(parents=True)
    os.utime(tmp_path / "other" / "jars", (1, 1))
    names.append(archive_file({**environment, "SPARK_HOME": str(tmp_path / "other")}))
    assert None not in names and len(set(names)) == 4


@pytest.mark.parametrize("source", ["SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"])
@pytest.mark.parametrize("option", ["-Xshare:off", "-XX:SharedArchiveFile=/mine.jsa", "-XX:+AutoCreateSharedArchive"])
def test_options_of_the_user_win(source: str, option: str, environment: dict[str, str]) -> None:
    assert archive_options(True, {**environment, source: f"-Xmx1g {option}"}) == ""


@pytest.mark.parametrize("name", ["SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR"])
def test_class_paths_with_folders_are_not_archived(name: str, environment: dict[str, str], tmp_path: Path) -> None:
    assert archive_options(True, {**environment, name: "/etc/spark"}) == ""
    (tmp_path / "spark" / "conf").mkdir()
    assert archive_options(True, environment) == ""


def test_without_a_folder_there_is_no_archive(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert archive_options(True, environment) == ""


@pytest.mark.long
def test_a_damaged_archive_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    options = os.environ["SPARK_SUBMIT_OPTS"].split()
    monkeypatch.setenv(
        "SPARK_SUBMIT_OPTS", " ".join(word for word in options if "SharedArchive" not in word and "Xlog" not in word)
    )
    archive = archive_file()
    assert archive is not None
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"\xa8\xab\x0b\xf0" + os.urandom(1 << 16))  # it begins as an archive does
    world = write_world(tmp_path / "world", 60)
    done = call(["run", str(write_query(tmp_path, MET)), *world.words])
    assert done.code == 0
    assert done.err.count("\n") == 1 and "60 elements" in done.err
    assert all(line.startswith('{"time":') for line in done.out.splitlines()) and done.out
    assert archive.stat().st_size == 4 + (1 << 16)
