"""Finding Java: JAVA_HOME before PATH, a minimum version, and one line with the remedy otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from cqels_opt.cli import java
from cqels_opt.cli.java import Java, find_java, main, major_version
from cqels_opt.errors import InputError


def launcher(folder: Path, banner: str) -> Path:
    """A program that answers like ``java -version``."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('Picked up _JAVA_OPTIONS: -Xmx1g\nopenjdk version "25-ea" 2025', 25),
        ("no Java here", None),
    ],
)
def test_versions(banner: str, version: int | None) -> None:
    assert major_version(banner) == version


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    home = launcher(tmp_path / "home", 'openjdk version "21.0.1"')
    on_path = launcher(tmp_path / "path", 'openjdk version "17.0.1"')
    environment = {"PATH": str(on_path.parent)}
    assert find_java(environment) == Java(on_path, 17)
    assert find_java({**environment, "JAVA_HOME": str(tmp_path / "home")}) == Java(home, 21)


def test_what_is_wrong_and_what_to_do(tmp_path: Path) -> None:
    old = launcher(tmp_path / "old", 'openjdk version "11.0.2"')
    silent = launcher(tmp_path / "silent", "hello")
    cases = [
        ({"PATH": str(tmp_path)}, "there is none on PATH"),
        ({"PATH": str(old.parent)}, f"{old} is Java 11"),
        ({"PATH": str(silent.parent)}, "does not say its version"),
        ({"PATH": str(old.parent), "JAVA_HOME": str(tmp_path / "none")}, "has no bin/java"),
    ]
    for environment, complaint in cases:
        with pytest.raises(InputError) as caught:
            find_java(environment)
        assert complaint in str(caught.value)
        assert "install Java 17 or newer" in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1


def test_set_up_installs_only_where_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "new" / "bin"))
    installed = []

    def install() -> None:
        installed.append(launcher(tmp_path / "new", 'openjdk version "17.0.1"'))

    monkeypatch.setattr(java, "install", install)
    monkeypatch.setattr(java, "may_install", lambda: False)
    assert main(["--install"]) == 2
    assert (installed, len(capsys.readouterr().err.splitlines())) == ([], 1)
    monkeypatch.setattr(java, "may_install", lambda: True)
    assert main([]) == 2
    assert installed == []
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main(["--install"]) == 2
    assert installed == []
    monkeypatch.delenv("JAVA_HOME")
    assert main(["--install"]) == 0
    assert len(installed) == 1
    assert main([]) == 0
    assert capsys.readouterr().out == f"Java 17 at {installed[0]}\n"
