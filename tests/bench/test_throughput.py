"""Runs of one query over the same batches must give the same number of answers before their times are reported."""

from __future__ import annotations

from typing import Any

import pytest

from cqels_opt.bench.throughput import _check
from cqels_opt.errors import RunError


def of(query: str, size: int, cores: int, answers: int) -> dict[str, Any]:
    return {"parameters": {"query": query, "elements a batch": size, "cores": cores}, "answers": answers}


def test_other_answers_are_an_error() -> None:
    same = [of("Q1", 100, 1, 7), of("Q1", 100, 2, 7), of("Q1", 200, 1, 9), of("Q2", 100, 1, 8)]
    _check(same)
    with pytest.raises(RunError, match=r"Q2, 100 elements a batch: runs give \[8, 9\] answers"):
        _check([*same, of("Q2", 100, 2, 9)])
