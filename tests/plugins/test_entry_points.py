"""Entry points of installed packages: which there are, and what happens to a broken one."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest
from added_parts import install

from cqels_opt import plugins
from cqels_opt.errors import InputError

GROUP = "cqels_opt.cost_models"
INSTALLED = EntryPoints(
    [
        EntryPoint("rows", "collections:Counter", GROUP),
        EntryPoint("gone", "no_such_package.anywhere:Model", GROUP),
        EntryPoint("renamed", "collections:NoSuchName", GROUP),
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
    assert plugins.names("cost_models") == ("gone", "renamed", "rows", "twice")
    assert plugins.names("windows") == ("other",)
    assert plugins.names("dialects") == ()


def test_an_entry_point_is_loaded() -> None:
    from collections import Counter

    assert plugins.load("cost_models", "rows") is Counter


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent", "no installed package adds 'absent' to the entry points cqels_opt.cost_models"),
        ("gone", "the entry point 'gone' of cqels_opt.cost_models cannot be loaded: No module named 'no_such_package'"),
        ("renamed", "the entry point 'renamed' of cqels_opt.cost_models cannot be loaded: "),
        ("twice", "'twice' is added to the entry points cqels_opt.cost_models by several packages"),
    ],
)
def test_a_broken_entry_point_is_one_clear_sentence(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message.replace(".", r"\.")):
        plugins.load("cost_models", name)
