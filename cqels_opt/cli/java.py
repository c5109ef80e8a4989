"""Finds and checks Java for Spark, and installs it for ``make setup``.

Spark 4 needs Java 17 or newer. ``python -m cqels_opt.cli.java`` prints the Java in use.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cqels_opt.errors import CqelsOptError, InputError
from cqels_opt.spark.class_archive import java_launcher

OLDEST = 17
_PACKAGES = ("openjdk-21-jre-headless", "openjdk-17-jre-headless", "default-jre-headless")
_WHAT_TO_DO = (
    f"install Java {OLDEST} or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17), "
    "or set JAVA_HOME to one"
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java launcher and its major version."""

    path: Path
    version: int


def major_version(banner: str) -> int | None:
    """The major version in the output of ``java -version``: ``17.0.15`` is 17, ``1.8.0_392`` is 8; None without a version."""
    found = re.search(r'version "(?:1\.)?(\d+)', banner)
    return int(found.group(1)) if found else None


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The Java that Spark will start, from ``JAVA_HOME`` or else from ``PATH``.

    Raises:
        InputError: there is none, or it is older than Java 17; the message says what to install.
    """
    environment = os.environ if environment is None else environment
    launcher = java_launcher(environment)
    if launcher is None:
        raise InputError(f"Spark needs Java, and there is none on PATH: {_WHAT_TO_DO}")
    if not os.access(launcher, os.X_OK):
        raise InputError(f"JAVA_HOME={environment.get('JAVA_HOME')} has no bin/java: {_WHAT_TO_DO}")
    try:
        answer = subprocess.run([launcher, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"{launcher} cannot be run ({error}): {_WHAT_TO_DO}") from error
    version = major_version(answer.stderr + answer.stdout)
    if version is None:
        raise InputError(f"{launcher} does not say its version: {_WHAT_TO_DO}")
    if version < OLDEST:
        raise InputError(f"Spark needs Java {OLDEST} or newer, and {launcher} is Java {version}: {_WHAT_TO_DO}")
    return Java(Path(launcher), version)


def may_install() -> bool:
    """Whether this machine is Debian or a derivative, and this user is root."""
    return Path("/etc/debian_version").exists() and shutil.which("apt-get") is not None and os.geteuid() == 0


def install() -> None:
    """Installs the first Java package that the machine's Debian release has.

    Raises:
        InputError: none of them could be installed; the message ends with apt-get's output.
    """
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], env=quiet, capture_output=True, check=False)
    reason = ""
    for package in _PACKAGES:
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "--no-upgrade", package]
        answer = subprocess.run(command, env=quiet, capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            return
        reason = (answer.stderr.strip().splitlines() or ["no reason given"])[-1]
    raise InputError(f"Java could not be installed with apt-get ({reason}): {_WHAT_TO_DO}")


def main(arguments: list[str] | None = None) -> int:
    """``python -m cqels_opt.cli.java [--install]``: returns 0 if Spark can use a Java, otherwise 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        try:
            java = find_java()
        except InputError as absent:
            if "--install" not in arguments or os.environ.get("JAVA_HOME") or not may_install():
                raise  # installing does not correct a wrong JAVA_HOME
            print(f"{absent}\ninstalling it with apt-get", file=sys.stderr)
            install()
            java = find_java()
    except CqelsOptError as error:
        print(error, file=sys.stderr)
        return 2
    if "--install" not in arguments:
        print(f"Java {java.version} at {java.path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
