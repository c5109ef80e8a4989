"""The measurement of checksums runs and finds some work."""

from __future__ import annotations

import re

import pytest

from cqels_opt.bench.checksums import main


def test_a_share_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    main(40, 3)
    share = re.search(r"checksums ([0-9.]+) ms", capsys.readouterr().out)
    assert share is not None
    assert float(share[1]) > 0
