"""A Chromium for the tests of the trace's page. ``python tests/services/browser.py`` sees to it that there is one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

GIVEN = "CQELS_OPT_BROWSER"
NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_browser() -> str | None:
    """The program: that of the environment, one on PATH, or the one that Playwright has downloaded."""
    for found in (os.environ.get(GIVEN), *map(shutil.which, NAMES)):
        if found:
            return found
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).exists() else None


def install() -> None:
    """Debian's where this is Debian and the user may, else Playwright's."""
    if Path("/etc/debian_version").exists() and shutil.which("apt-get") and os.geteuid() == 0:
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], env=quiet, check=False)
        packages = ["chromium", "fonts-dejavu-core"]
        subprocess.run(
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages],
            env=quiet,
            stdout=subprocess.DEVNULL,
            check=False,
        )
    else:
        subprocess.run([sys.executable, "-m", "playwright", "install", "--with-deps", "chromium"], check=False)


def main() -> int:
    """0 where there is a browser (now), 2 where not."""
    if find_browser() is None:
        print("installing Chromium for the tests of the trace's page", file=sys.stderr)
        install()
    if find_browser() is None:
        print(f"Chromium could not be installed: install it, or name one with {GIVEN}=/path/to/chromium", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
