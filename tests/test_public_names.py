"""What a Python user sees without running anything: completion, signatures, durations, and how objects are displayed."""

from __future__ import annotations

import pydoc
from inspect import signature
from typing import Any

import pytest

import cqels_opt as cq
from cqels_opt import adaptive_join
from cqels_opt.compiler.registration import QueryOptions, member_of, record_of
from cqels_opt.errors import InputError, for_the_command_line
from cqels_opt.query.durations import LONGEST, duration_of
from cqels_opt.runtime.run_factory import check_streams
from cqels_opt.runtime.start_options import StartOptions, keywords_of
from cqels_opt.spark import query_jobs
from cqels_opt.spark.stream import StreamRun


def test_completion_offers_the_public_names() -> None:
    assert {"Engine", "AdaptiveJoin", "InputError", "__doc__"} <= set(dir(cq))
    assert set(cq.__all__) <= set(dir(cq))
    assert "import_module" not in dir(cq)
    for name in cq.__all__:
        getattr(cq, name)


# ------------------------------------------------------------------ signatures
@pytest.mark.parametrize("start", [cq.Engine.start, cq.CompiledQuery.start], ids=["engine", "query"])
def test_start_shows_its_options(start: Any) -> None:
    parameters = signature(start).parameters
    assert list(parameters)[:5] == ["self", "streams", "sink", "checkpoint", "trace"]
    assert set(StartOptions.__annotations__) == set(list(parameters)[5:])
    assert parameters["lateness"].default == 0
    assert parameters["on_error"].default == "skip"
    assert "idle_timeout" in pydoc.plain(pydoc.render_doc(start))


@pytest.mark.parametrize("function", [cq.Engine.adaptive, StreamRun.add], ids=["adaptive", "add"])
def test_options_of_a_query_are_shown(function: Any) -> None:
    parameters = signature(function).parameters
    assert set(QueryOptions.__annotations__) <= set(parameters)
    assert not any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    assert parameters["dialect"].default == "auto"


def test_options_are_the_keywords_of_the_functions_that_take_them() -> None:
    started = signature(query_jobs.start).parameters.values()
    assert {one.name for one in started if one.kind is one.KEYWORD_ONLY} == set(StartOptions.__annotations__)
    registered = signature(cq.Engine.register).parameters.values()
    assert {one.name for one in registered if one.kind is one.KEYWORD_ONLY} == set(QueryOptions.__annotations__)
    assert set(signature(record_of).parameters) - {"text"} == set(QueryOptions.__annotations__)


def test_keywords_of_another_function() -> None:
    class Options(dict[str, object]):
        size: int
        absent: int

    def inner(x: int, size: int = 3) -> int:
        return x * size

    @keywords_of(Options, inner)
    def outer(x: int, **options: Any) -> int:
        """Multiplies."""
        return inner(x, **options)

    assert str(signature(outer)) == "(x: 'int', *, size: 'int' = 3) -> 'int'"
    assert outer(2, size=4) == 8
    with pytest.raises(TypeError, match="unexpected keyword argument 'sise'"):
        outer(2, sise=4)


# ------------------------------------------------------------------ the words of messages
def test_messages_name_options_as_their_reader_writes_them() -> None:
    def message() -> str:
        with pytest.raises(InputError) as caught:
            check_streams(["<http://s>"], {}, "DATAFRAME")
        return str(caught.value)

    python = "the query reads stream <http://s>, but given is no stream: add streams={'http://s': DATAFRAME}"
    assert message() == python
    with for_the_command_line():
        assert message() == "the query reads stream <http://s>, but given is no stream: add --stream http://s PATH"
    assert message() == python


def test_a_window_that_does_not_exist() -> None:
    text = "SELECT ?x FROM NAMED <http://s> [RANGE 1s SLIDE 1s] AS ?w WHERE { GRAPH ?w { ?x ?y ?z } }"
    with pytest.raises(InputError, match=r"^report={'v': …}: the query has no window v; "):
        member_of(record_of(text, "q1", report={"v": "wc"}))
    with for_the_command_line(), pytest.raises(InputError, match=r"^--t0 v=…: the query has no window v; "):
        member_of(record_of(text, "q1", t0={"v": 1}))
    with pytest.raises(InputError, match="'often' is no report policy: give some of cc, ea, wc, nc and p:DUR"):
        record_of(text, "q1", report="often")


# ------------------------------------------------------------------ durations
@pytest.mark.parametrize(
    ("given", "milliseconds"), [(0, 0), (2_000, 2_000), ("0", 0), ("10s", 10_000), ("1 hour", 3_600_000), ("PT1M", 60_000)]
)
def test_durations(given: int | str, milliseconds: int) -> None:
    assert duration_of(given, "lateness") == milliseconds


@pytest.mark.parametrize("given", [-1, 1.5, True, None, LONGEST + 1, b"10s"])
def test_what_is_no_duration(given: object) -> None:
    with pytest.raises(
        InputError, match=r'^lateness=.* is not a duration: write for example "10s" or "1 hour", or a whole number of'
    ):
        duration_of(given, "lateness")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("5", "5 has no unit; write for example 30s"),
        ("-10s", "-10s is not a duration"),
        ("ten seconds", "is not a duration"),
        ("", "a duration is missing"),
        ("3 moons", "unknown unit of time 'moons'"),
    ],
)
def test_texts_that_are_no_durations(given: str, reason: str) -> None:
    with pytest.raises(InputError, match=rf"^max_ahead={given!r}: .*{reason}"):
        duration_of(given, "max_ahead")


@pytest.mark.parametrize("given", [0, "0", "0s"])
def test_durations_that_must_be_longer_than_0(given: int | str) -> None:
    with pytest.raises(InputError, match=r"^idle_timeout=.*longer than 0"):
        duration_of(given, "idle_timeout", positive=True)


def test_durations_of_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adaptive_join, "check_classic", lambda session: None)
    join: Any = cq.AdaptiveJoin(None)  # type: ignore[arg-type]
    texts = join.relation("v", window="30s", lateness="10s", idle_timeout="2 min").spec
    assert join.relation("v", window=30_000, lateness=10_000, idle_timeout=120_000).spec == texts
    for parameter in ("window", "lateness", "idle_timeout"):
        with pytest.raises(InputError, match=rf"^{parameter}=1\.5 is not a duration"):
            join.relation("v", **{"window": "30s", parameter: 1.5})
    with pytest.raises(InputError, match=r"^lateness='ten': ten is not a duration"):
        join.relation("v", window="30s").relation("w", window="30s").on("v.a = w.a").batch(print, lateness="ten")
