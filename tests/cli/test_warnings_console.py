"""Warnings of the commands: each sentence once, however it is reported."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
from trace_cases import RECORD

from cqels_opt.cli.warnings_console import MOST, Notices, show_batch
from cqels_opt.errors import EngineWarning
from cqels_opt.trace.records import Milliseconds


def test_a_notice_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The engine reports lost statistics as a Python warning and in the trace records of every query."""
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        notices = Notices()
        warnings.warn("statistics are lost", EngineWarning, stacklevel=1)
        warnings.warn("of another kind", RuntimeWarning, stacklevel=1)
        record = replace(RECORD, notices=("statistics are lost",))
        notices([record, record])
        notices([record])
    assert capsys.readouterr().err == "warning: statistics are lost\n"
    assert [str(one.message) for one in raised] == ["of another kind"]


def test_notices_without_end_are_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    notices = Notices()
    for number in range(MOST + 5):
        notices([replace(RECORD, notices=(f"sentence {number}",))])
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == MOST and lines[-1].endswith("(further ones are in the trace alone)")


def test_verbose_has_a_line_for_each_batch(capsys: pytest.CaptureFixture[str]) -> None:
    first = replace(RECORD, answers=3, ms=Milliseconds(execute=12.0))
    show_batch([first, replace(first, query="other", answers=1)])
    show_batch([replace(first, batch=1)])
    assert capsys.readouterr().err.splitlines() == [
        "batch 0: 10 elements, 4 answers, 12 ms, delta w: w » a[?x]",
        "batch 1: 10 elements, 3 answers, 12 ms",
    ]
