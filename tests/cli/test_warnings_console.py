"""Warnings of the commands: each sentence once, however it is reported."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
from trace_cases import RECORD

from cqels_opt.cli.warnings_console import MOST, Notices
from cqels_opt.errors import EngineWarning


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
