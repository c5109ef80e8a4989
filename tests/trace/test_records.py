"""The trace record: exactly INTERFACE's keys, a lossless round trip, and one clear line for an invalid record."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.errors import DataError, InputError
from cqels_opt.trace.records import Delta, Lag, Milliseconds, Moved, OperatorRecord, RunnerUp, SubResults, TraceRecord, read_trace

FIXTURE = Path(__file__).parent / "q2.jsonl"

texts = st.text(max_size=12)
wholes = st.integers(min_value=-(2**62), max_value=2**62)
numbers = st.floats(allow_nan=False, allow_infinity=False)
maybe_numbers = st.none() | numbers
operators = st.builds(OperatorRecord, texts, texts, st.lists(texts, max_size=3).map(tuple), maybe_numbers, st.none() | wholes)
deltas = st.builds(
    Delta,
    texts,
    texts,
    maybe_numbers,
    st.none() | st.builds(RunnerUp, texts, maybe_numbers),
    st.booleans(),
    st.lists(st.builds(Moved, texts, maybe_numbers, maybe_numbers), max_size=2).map(tuple),
    st.lists(operators, max_size=2).map(tuple),
    st.lists(st.builds(RunnerUp, texts, maybe_numbers), max_size=2).map(tuple),
)
names = st.lists(texts, max_size=3).map(tuple)
changes = st.builds(SubResults, texts, names, names, maybe_numbers, maybe_numbers, maybe_numbers, st.none() | texts)
records = st.builds(
    TraceRecord,
    batch=wholes,
    query=texts,
    time_range=st.none() | st.tuples(wholes, wholes),
    frontier=st.none() | wholes,
    elements=wholes,
    late=wholes,
    rejected=wholes,
    windows=st.dictionaries(texts, wholes, max_size=3),
    deltas=st.lists(deltas, max_size=2).map(tuple),
    epoch=wholes,
    ms=st.builds(Milliseconds, numbers, numbers, numbers, numbers, numbers, numbers),
    jobs=wholes,
    fallback=st.none() | texts,
    instances=wholes,
    sub_results=st.lists(changes, max_size=2).map(tuple),
    answers=st.none() | wholes,
)


@pytest.mark.long
@given(records)
def test_a_record_comes_back_as_it_was(record: TraceRecord) -> None:
    line = record.line()
    assert line.count("\n") == 1
    assert TraceRecord.from_json(json.loads(line)) == record


RECORD = TraceRecord(
    batch=1,
    query="q",
    time_range=(1, 2),
    frontier=1,
    elements=2,
    deltas=(
        Delta(
            "w",
            "w » a[?x]",
            1.0,
            RunnerUp("w", 2.0),
            True,
            (Moved("rows", None, 3.0),),
            (OperatorRecord("probe", "a", ("x",), 1.0, 2),),
        ),
    ),
)
LINE = RECORD.line().encode()


def test_the_keys_are_those_of_the_interface() -> None:
    record = RECORD.to_json()
    assert " ".join(record) == "batch query time_range frontier elements late rejected windows deltas epoch ms jobs fallback lag"
    delta = record["deltas"][0]
    assert " ".join(delta) == "source plan cost runner_up switched reason operators"
    assert list(delta["runner_up"]) == ["plan", "cost"]
    assert list(delta["reason"][0]) == ["statistic", "was", "is"]
    assert list(delta["operators"][0]) == ["op", "relation", "on", "estimated", "observed"]
    assert list(record["ms"]) == ["ingest", "statistics", "optimize", "execute", "sink", "commit"]


def test_what_is_not_finite_is_not_known() -> None:
    line = replace(RECORD, deltas=(Delta("w", "w", float("inf")),)).line()
    assert json.loads(line)["deltas"][0]["cost"] is None


def test_keys_of_a_newer_version_are_passed_over() -> None:
    assert TraceRecord.from_json({**RECORD.to_json(), "weather": "fine"}) == RECORD


def test_traces_of_before_there_was_a_lag_are_read() -> None:
    assert TraceRecord.from_json(without("lag")) == RECORD
    late = replace(RECORD, lag=Lag(1500, 3))
    assert TraceRecord.from_json(late.to_json()) == late


def test_traces_of_before_sink_time_was_measured_are_read() -> None:
    times = {"ingest": 1.0, "statistics": 2.0, "optimize": 3.0, "execute": 4.0, "commit": 5.0}
    found = TraceRecord.from_json({**RECORD.to_json(), "ms": times})
    assert found.ms == Milliseconds(1.0, 2.0, 3.0, 4.0, sink=0.0, commit=5.0)
    assert found.ms.total == 15.0 and found.ms.longest == "commit"
    assert found.answers is None


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in RECORD.to_json().items() if name != key}


@pytest.mark.parametrize("key", [key for key in RECORD.to_json() if key != "lag"])
def test_an_absent_key_is_named(key: str) -> None:
    with pytest.raises(ValueError, match=f"the key '{key}' is absent"):
        TraceRecord.from_json(without(key))


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("batch", "1", 'batch: a whole number is expected, not "1"'),
        ("batch", True, "batch: a whole number is expected, not true"),
        ("query", 7, "query: text is expected, not 7"),
        ("time_range", [1], r"time_range: two times are expected, not \[1\]"),
        ("windows", {"w": "many"}, 'windows: w: a whole number is expected, not "many"'),
        ("windows", [], r"windows: an object is expected, not \[\]"),
        ("deltas", {}, "deltas: a list is expected"),
        ("deltas", [{}], "deltas: the key 'source' is absent"),
        ("ms", {"ingest": "1"}, "ms: ingest: a number is expected"),
        ("fallback", False, "fallback: text is expected, not false"),
    ],
)
def test_a_value_of_another_type_is_named(key: str, value: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        TraceRecord.from_json({**RECORD.to_json(), key: value})


@pytest.mark.parametrize("change", [{"query": "a \ud800"}, {"windows": {"a \ud800": 1}}, {"notices": ["a \ud800"]}])
def test_half_of_a_surrogate_pair_is_refused(change: dict[str, Any]) -> None:
    """No terminal and no page could show it."""
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        TraceRecord.from_json({**RECORD.to_json(), **change})


def test_a_flag_is_true_or_false() -> None:
    delta = {**RECORD.to_json()["deltas"][0], "switched": "yes"}
    with pytest.raises(ValueError, match="deltas: switched: true or false is expected"):
        TraceRecord.from_json({**RECORD.to_json(), "deltas": [delta]})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"{}\n", ":2: not a trace record that this version reads: the key 'batch' is absent"),
        (b"not json\n", ":2: not a trace record: not JSON (Expecting value at column 1)"),
        (b"not json", ":2: not a trace record: not JSON (Expecting value at column 1)"),
        (b"\xff\xfe\x00", ":2: not a trace record: not JSON (not UTF-8 text)"),
        (b"[1, 2]\n", ":2: not a trace record that this version reads: an object is expected, not [1, 2]"),
        (LINE[:9] + b"\n" + LINE, ":2: a trace record that is cut off or damaged (Expecting value at column 10)"),
        (LINE.replace(b"1.0", b"NaN"), ":2: not a trace record that this version reads: NaN is no JSON number"),
    ],
)
def test_a_bad_line_is_one_clear_error(tmp_path: Path, text: bytes, complaint: str) -> None:
    file = tmp_path / "t.jsonl"
    file.write_bytes(LINE + text)
    with pytest.raises(DataError) as caught:
        list(read_trace(file))
    assert str(caught.value) == f"{file}{complaint}"


def test_a_deeply_nested_line_is_one_clear_error(tmp_path: Path) -> None:
    (file := tmp_path / "t.jsonl").write_bytes(LINE + b'{"windows": ' + b"[" * 100_000 + b"\n")
    with pytest.raises(DataError, match=r":2: not a trace record that this version reads: it is nested too deeply$"):
        list(read_trace(file))


@pytest.mark.parametrize("length", range(1, len(LINE) - 1))
def test_a_half_written_last_line_is_no_record_yet(tmp_path: Path, length: int) -> None:
    file = tmp_path / "t.jsonl"
    file.write_bytes(LINE + LINE[:length])
    assert list(read_trace(file)) == [RECORD]


def test_empty_lines_and_a_missing_last_newline_are_fine(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text("\n" + RECORD.line() + "\n" + RECORD.line().rstrip("\n"))
    assert list(read_trace(file)) == [RECORD, RECORD]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        list(read_trace(tmp_path / "none.jsonl"))


def test_the_fixture_is_a_trace() -> None:
    assert [record.batch for record in read_trace(FIXTURE)] == list(range(13))
