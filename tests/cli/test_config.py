"""Options from a TOML file."""

from __future__ import annotations

from pathlib import Path

import pytest

from cqels_opt.cli.grammar import parse
from cqels_opt.cli.main import main
from cqels_opt.cli.options import RunOptions
from cqels_opt.windows.batch_size import BatchSize

CONFIG = """
static = "a.nt"
batch = 100
drain = true
lateness = "2s"
[prefixes]
ex = "http://ex.org/"
[stream]
"ex:s" = ["s.ndjson", "s.ndjson"]
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "data").mkdir()
    for name in ("q.rq", "data/a.nt", "data/s.ndjson"):
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    return Path("data/c.toml")


def test_a_file_has_options_and_the_command_line_replaces_them(file: Path) -> None:
    file.write_text(CONFIG)
    stream = ("http://ex.org/s", Path("data/s.ndjson"))
    assert parse(["run", "q.rq", "--config", str(file), "--lateness", "5s"])[1] == RunOptions(
        Path("q.rq"), (stream, stream), (Path("data/a.nt"),), batch=BatchSize(100), drain=True, lateness=5000
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('statik = "a.nt"', "statik: there is no option of this name; did you mean static?"),
        ('static = "none.nt"', "static: data/none.nt: No such file or directory"),
        ("batch = true", "batch: write a text, a whole number or a list of these, not True"),
        ('lateness = "5"', "lateness: 5 has no unit"),
        ('lateness = ["1s", "2s"]', "lateness: it takes one value, not 2"),
        ('stream = "s.ndjson"', "stream: write a table of IRIs and paths"),
        ('[stream]\n"s" = "s.ndjson"', "stream: 's' is no absolute IRI"),
        ('drain = "yes"', "drain: write true or false, not 'yes'"),
        ('dialect = "cqel"', "dialect: there is no 'cqel'; did you mean cqels?"),
        ("prefixes = 1", "prefixes: write a table of names and IRIs"),
        ("x = [", "not TOML: "),
    ],
)
def test_errors_name_the_file_and_the_key(text: str, message: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(text)
    assert main(["run", "q.rq", "--config", str(file)]) == 2
    assert f"{file}: {message}" in capsys.readouterr().err
