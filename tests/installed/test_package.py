"""The package as pip has installed it: whole, and the only one that is imported."""

from __future__ import annotations

import pkgutil
import sys
import sysconfig
from importlib import import_module, metadata
from pathlib import Path

import pytest

import cqels_opt

BESIDE = Path(__file__).resolve().parents[2]
SITE = Path(sysconfig.get_path("purelib")).resolve()
WITHOUT = ("cqels_opt/bench/micro/",)
"""Not part of the package: tests."""


@pytest.fixture(scope="module")
def known() -> set[str]:
    """The files of the package in the checkout, as ``environment.py`` found them."""
    listed = BESIDE / "files.txt"
    if not listed.exists():
        pytest.fail("nothing has been installed: run these tests with make test-wheel", pytrace=False)
    return set(listed.read_text(encoding="utf-8").splitlines())


def test_it_is_the_installed_one() -> None:
    assert Path(cqels_opt.__file__).resolve().parent == SITE / "cqels_opt"
    assert not (BESIDE / "cqels_opt").exists()


def test_rooms_that_are_symlinks_in_the_checkout_are_folders() -> None:
    for room in ("plans", "stats", "bench"):
        found = import_module(f"cqels_opt.{room}").__file__
        assert found is not None
        assert Path(found).resolve() == SITE / "cqels_opt" / room / "__init__.py"


def test_it_has_every_file_and_no_other(known: set[str]) -> None:
    files = {str(file) for file in metadata.files("cqels-opt") or ()}
    package = {file for file in files if file.startswith("cqels_opt/") and not file.endswith(".pyc")}
    assert package == {file for file in known if not file.startswith(WITHOUT)}


def test_every_module_is_there_and_can_be_imported() -> None:
    names = [module.name for module in pkgutil.walk_packages(cqels_opt.__path__, "cqels_opt.")]
    assert len(names) > 100
    for name in names:
        found = import_module(name).__file__
        assert found is not None and Path(found).resolve().is_relative_to(SITE)


def test_nothing_was_imported_from_elsewhere() -> None:
    """All modules that the tests of this run imported are Python's own, installed, tests, or the examples of added parts."""
    here = (BESIDE / "tests", BESIDE / "examples" / "extending")
    roots = {Path(path).resolve() for path in (sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), *here)}
    files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
    assert {name: file for name, file in files.items() if file and not _within(Path(file), roots)} == {}


def _within(file: Path, roots: set[Path]) -> bool:
    """Where it says it lies, or where that leads: a distribution's Python may have links out of its folder."""
    return any(path.is_relative_to(root) for path in (file, file.resolve()) for root in roots)
