"""Functions that a user registers: of values and of columns, their errors, and invalid registrations."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from cqels_opt import register_function
from cqels_opt.errors import InputError, QueryError
from cqels_opt.query import extensions
from cqels_opt.query.algebra import Call, Variable
from cqels_opt.query.columns import Items
from cqels_opt.query.evaluate import compile_condition, compile_expression
from cqels_opt.query.extensions import called_once, extension
from cqels_opt.query.numeric import ExpressionError
from cqels_opt.query.values import Item

IRI = "http://ex.org/f"
XSD = "http://www.w3.org/2001/XMLSchema#"
X, Y = Variable("x"), Variable("y")


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    extensions._KNOWN.pop(f"<{IRI}>", None)


def value(*arguments: str) -> str | None:
    found = extension(f"<{IRI}>")
    assert found is not None
    return called_once(found, *arguments)


def integer(n: int) -> str:
    return f'"{n}"^^<{XSD}integer>'


def test_values_come_as_numbers_and_terms() -> None:
    seen: list[tuple[Any, ...]] = []

    def f(*arguments: Any) -> int:
        seen.append(arguments)
        return len(arguments)

    register_function(IRI, f, arguments=(0, None))
    assert value(integer(3), f'"1.5"^^<{XSD}double>', '"a"', "<http://ex.org/a>", f'"true"^^<{XSD}boolean>') == integer(5)
    assert seen == [(3, 1.5, '"a"', "<http://ex.org/a>", True)]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (1.5, f'"1.5E0"^^<{XSD}double>'),
        (True, f'"true"^^<{XSD}boolean>'),
        ("<http://ex.org/b>", "<http://ex.org/b>"),
        ('"x"@EN', '"x"@en'),
        (np.float64(1.5), f'"1.5E0"^^<{XSD}double>'),
        (np.float32(1.5), f'"1.5E0"^^<{XSD}double>'),
        (np.int64(7), f'"7"^^<{XSD}integer>'),
        (np.bool_(True), f'"true"^^<{XSD}boolean>'),
    ],
)
def test_results_are_numbers_and_terms(result: object, expected: str) -> None:
    register_function(IRI, lambda x: result, arguments=1)
    assert value(integer(1)) == expected


@pytest.mark.parametrize(
    "result",
    [
        None,
        float("nan"),
        Decimal("NaN"),
        np.datetime64("2024-01-01"),
        "no term",
        [],
        ZeroDivisionError(),
        KeyError("x"),
        TypeError("x"),
    ],
)
def test_what_is_no_value_is_an_error_of_the_expression(result: object) -> None:
    def f(x: object) -> object:
        if isinstance(result, Exception):
            raise result
        return result

    register_function(IRI, f, arguments=1)
    row = {"x": integer(1)}
    with pytest.raises(ExpressionError, match="a function has no value"):
        compile_expression(Call(f"<{IRI}>", (X,)))(row)
    assert not compile_condition(Call(f"<{IRI}>", (X,)))(row)


def test_a_function_of_columns() -> None:
    seen: list[list[float]] = []

    def f(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        seen.append(a.tolist())
        return np.where(b > 0, a / np.maximum(b, 1), np.nan)

    register_function(IRI, f, arguments=2, columns=True)
    found = extension(f"<{IRI}>")
    assert found is not None
    column = found.column(Items([1, None, 3, 4]), Items([2, 2, 0, 1]))
    assert column.items() == [0.5, None, None, 4.0]
    assert seen == [[1, 3, 4]]  # rows with an error are not passed to it


def test_values_of_a_column_that_are_none_are_errors_of_their_rows() -> None:
    register_function(IRI, lambda a: np.array([{}, 2], object), arguments=1, columns=True)
    found = extension(f"<{IRI}>")
    assert found is not None
    assert found.column(Items([1, 2])).items() == [None, 2]


def test_a_function_of_columns_fails_for_the_rows_alone_for_which_it_fails() -> None:
    """Else the answers would depend on the rows around them, and so on the cut into batches."""

    def f(a: np.ndarray) -> Any:
        if (a < 0).any():
            raise ValueError("negative")
        return np.sqrt(a)

    register_function(IRI, f, arguments=1, columns=True)
    found = extension(f"<{IRI}>")
    assert found is not None
    assert found.column(Items([4, -1, 9, None, -4, 16, 25])).items() == [2.0, None, 3.0, None, None, 4.0, 5.0]
    assert found.column(Items([-1, -2, -3])).items() == [None] * 3


@pytest.mark.parametrize(
    ("f", "results"),
    [(lambda a: a, [1.0, '"x"', 2.0, Decimal("0.5"), True]), (lambda a: [*a], [1.0, '"x"', 2.0, Decimal("0.5"), True])],
    ids=["array", "list"],
)
def test_arrays_of_a_function_are_of_one_kind_each(f: Any, results: list[object]) -> None:
    """Else a number would be a double or not by the rows around it."""
    seen: list[str] = []

    def noted(a: np.ndarray) -> Any:
        seen.append(a.dtype.kind)
        return f(a)

    register_function(IRI, noted, arguments=1, columns=True)
    found = extension(f"<{IRI}>")
    assert found is not None
    arguments: list[Item | None] = [1, '"x"', 2.0, Decimal("0.5"), f'"true"^^<{XSD}boolean>']
    together = found.column(Items(arguments)).items()
    assert seen == ["f", "O"]
    alone = [item for argument in arguments for item in found.column(Items([argument])).items()]
    assert [(type(item), item) for item in together] == [(type(item), item) for item in alone] == [(type(r), r) for r in results]


def test_numbers_of_a_list_are_what_they_are_alone() -> None:
    register_function(IRI, lambda a: [1 if x == 1.0 else 2.5 for x in a], arguments=1, columns=True)
    found = extension(f"<{IRI}>")
    assert found is not None
    assert [type(item) for item in found.column(Items([1, 2])).items()] == [int, float]


def test_a_function_of_columns_that_loses_rows_is_said_so() -> None:
    register_function(IRI, lambda a: a[:1], arguments=1, columns=True)
    found = extension(f"<{IRI}>")
    assert found is not None
    with pytest.raises(InputError, match="results for 2 rows"):
        found.column(Items([1, 2]))


def test_it_is_registered_where_it_is_unpacked() -> None:
    register_function(IRI, abs, arguments=1)
    packed = pickle.dumps(extension(f"<{IRI}>"))
    del extensions._KNOWN[f"<{IRI}>"]
    pickle.loads(packed)
    assert value(integer(-3)) == integer(3)


def test_the_number_of_arguments_is_checked() -> None:
    register_function(IRI, max, arguments=(2, 3))
    with pytest.raises(QueryError, match="takes 2 to 3 arguments, not 1"):
        compile_expression(Call(f"<{IRI}>", (X,)))
    with pytest.raises(QueryError, match="is not supported"):
        compile_expression(Call("<http://ex.org/nothing>", (X, Y)))


@pytest.mark.parametrize(
    ("iri", "options", "message"),
    [
        ("f", {"arguments": 1}, "no absolute IRI"),
        (None, {"arguments": 1}, "None is no absolute IRI"),
        (IRI, {"arguments": "one"}, r"arguments='one': give their number, or the least and the greatest, as in \(1, 2\)"),
        (IRI, {"arguments": (1, 2, 3)}, r"arguments=\(1, 2, 3\): give their number"),
        (IRI, {"arguments": 1, "cost": "much"}, "cost='much': a number of seconds is expected"),
        (IRI, {"arguments": 1, "columns": "no"}, "columns='no': True or False is expected"),
        (IRI, {"arguments": (2, 1)}, "cannot take 2 to 1"),
        (IRI, {"arguments": 0}, "cannot take 0 to 0"),
        ("http://www.w3.org/2001/XMLSchema#double", {"arguments": 1}, "is a function of this project's own"),
        (IRI, {"arguments": 1, "cost": 0.0}, "cannot cost 0"),
        ("http://w3id.org/rsp/rspu#add", {"arguments": 2}, "this project's own"),
    ],
)
def test_what_cannot_be_registered(iri: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        register_function(iri, abs, **options)


def test_a_function_can_be_called() -> None:
    """Else each call would be an error of the expression, and a filter would drop all rows."""
    with pytest.raises(InputError, match=r"a function is expected, not int$"):
        register_function(IRI, 3, arguments=1)  # type: ignore[arg-type]
