"""Entry points of installed packages: which there are, and what happens to a broken one."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
from added_parts import install

from cqels_opt import plugins
from cqels_opt.errors import InputError
from cqels_opt.planner.planner_options import PlannerOptions

GROUP = "cqels_opt.cost_models"
INSTALLED = EntryPoints(
    [
        EntryPoint("rows", "collections:Counter", GROUP),
        EntryPoint("gone", "no_such_package.anywhere:Model", GROUP),
        EntryPoint("renamed", "collections:NoSuchName", GROUP),
        EntryPoint("raises", "raising_at_import", GROUP),
        EntryPoint("exits", "exiting_at_import", GROUP),
        EntryPoint("number", "builtins:int", GROUP),
        EntryPoint("twice", "collections:Counter", GROUP),
        EntryPoint("twice", "collections:OrderedDict", GROUP),
        EntryPoint("other", "collections:Counter", "cqels_opt.windows"),
    ]
)


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some entry points, as if packages with them were installed."""
    install(monkeypatch, *INSTALLED)


def test_names_are_those_of_the_group() -> None:
    assert plugins.names("cost_models") == ("exits", "gone", "number", "raises", "renamed", "rows", "twice")
    assert plugins.names("windows") == ("other",)
    assert plugins.names("dialects") == ()


def test_an_entry_point_is_loaded() -> None:
    from collections import Counter

    assert plugins.load("cost_models", "rows") is Counter


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent", "no installed package adds 'absent' to the entry points cqels_opt.cost_models"),
        (
            "gone",
            "the entry point 'gone' of cqels_opt.cost_models cannot be loaded: ModuleNotFoundError: No module named 'no_such_package'",
        ),
        ("renamed", "the entry point 'renamed' of cqels_opt.cost_models cannot be loaded: "),
        ("raises", "the entry point 'raises' of cqels_opt.cost_models cannot be loaded: ValueError: out of order"),
        ("exits", "the entry point 'exits' of cqels_opt.cost_models cannot be loaded: SystemExit: 7"),
        ("twice", "'twice' is added to the entry points cqels_opt.cost_models by several packages"),
    ],
)
def test_a_broken_entry_point_is_one_clear_sentence(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, text in (("raising", "raise ValueError('out of order')"), ("exiting", "raise SystemExit(7)")):
        (tmp_path / f"{module}_at_import.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=message.replace(".", r"\.")):
        plugins.load("cost_models", name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rows", "the entry point 'rows' of cqels_opt.cost_models makes nothing: TypeError: 'Constants' object is not iterable"),
        ("number", "the entry point 'number' of cqels_opt.cost_models makes nothing: TypeError: "),
        ("lists", "the cost model 'lists' is no CostModel that has operators for inner joins"),
    ],
)
def test_a_factory_of_something_else_is_one_clear_sentence(name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, *INSTALLED, EntryPoint("lists", "builtins:repr", GROUP))
    with pytest.raises(InputError, match=message.replace(".", r"\.")):
        _ = PlannerOptions(cost_model=name).model
