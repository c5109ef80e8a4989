"""Inputs of live runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cqels_opt.local import inputs
from cqels_opt.local.inputs import BUSY, IDLE, Growing


def test_a_run_without_new_lines_checks_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now, batches = [0.0], iter([None, "lines", None, None, "lines"])
    monkeypatch.setattr(inputs, "time", SimpleNamespace(monotonic=lambda: now[0]))
    files = SimpleNamespace(batch=lambda frontier, upto: next(batches))
    growing = Growing(cast("Any", SimpleNamespace(frontier=None, idle=None)), cast("Any", files))
    polls = []
    for at in (0.5, 0.9, 1.8, 2.0, 9.0):
        now[0] = at
        growing.rows(0)
        polls.append(growing.poll)
    assert polls == [BUSY, BUSY, BUSY, IDLE, BUSY]
