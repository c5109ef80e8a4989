"""The command lines of single studies: each refuses numbers that it cannot measure."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cqels_opt.bench import cyclic, realtime, window_size


@pytest.mark.parametrize(
    ("main", "words", "message"),
    [
        *((cyclic.main, ["--edges", n], f"--edges: must be a whole number, at least 2, not {n}") for n in ("1", "0", "-5", "x")),
        *((cyclic.main, ["--hub", share], f"--hub: must be a share from 0 to 1, not {share}") for share in ("2", "nan")),
        (window_size.main, ["--size", "0"], "--size: must be a whole number, at least 1, not 0"),
        (realtime.main, ["--rate", "0"], "--rate: must be a positive number, not 0"),
        (realtime.main, ["--seconds", "-1"], "--seconds: must be a positive number, not -1"),
    ],
)
def test_a_number_out_of_range_names_its_option(
    main: Callable[[], None], words: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["study", *words])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert f"error: argument {message}\n" in capsys.readouterr().err


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_two_edges_are_enough(share: float) -> None:
    found = cyclic.study(True, edges=2, patterns=("triangle",), modes=("multiway",), hub=share)
    assert found["patterns"][0]["edges"] == 2
