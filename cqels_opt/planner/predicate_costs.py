"""The cost of evaluating an expression on a row, relative to a comparison of numbers.

A comparison of columns runs over whole arrays of ids. Every other expression is evaluated once per distinct combination of its arguments,
whose terms are decoded first. Its weight is that of a row whose combination no other row has: the cost per row plus the cost of each call,
by the class of its function. ``cqels-opt bench calibration`` measures the weights next to those committed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from cqels_opt.operators.expressions import goes_by_column, is_call, truth
from cqels_opt.operators.rows import Rows
from cqels_opt.operators.term_table import TermTable
from cqels_opt.planner.calibration import INTEGER, Experiment, Timer, fitted, least_seconds
from cqels_opt.plans import Constants
from cqels_opt.query.algebra import TIMESTAMP, Call, Constant, Exists, Expression, Variable
from cqels_opt.query.casts import CASTS
from cqels_opt.query.extensions import Extension, extension
from cqels_opt.query.uncertainty.functions import FUNCTIONS as UNCERTAIN
from cqels_opt.rdf import ids as term_ids

MANY: Final = 20  # times as many rows in experiments with a comparison of columns, which is faster
COMPARISONS: Final = ("=", "!=", "<", ">", "<=", ">=")
CLASSES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("&&", "||", "!", "IF", "COALESCE", "BOUND", "SAMETERM"), "logic"),
    **dict.fromkeys((*COMPARISONS, "IN", "NOT IN", "+", "-", "*", "/", "UNARY-", "UNARY+"), "number"),
    **dict.fromkeys(("ABS", "ROUND", "CEIL", "FLOOR", "ISNUMERIC"), "number"),
    **dict.fromkeys(("ISIRI", "ISURI", "ISBLANK", "ISLITERAL", "STR", "LANG", "DATATYPE"), "term"),
    **dict.fromkeys(("LANGDIR", "HASLANG", "HASLANGDIR", "ISTRIPLE", TIMESTAMP), "term"),
    **dict.fromkeys(("TRIPLE", "SUBJECT", "PREDICATE", "OBJECT"), "string"),
    **dict.fromkeys(("IRI", "URI", "STRDT", "STRLANG", "STRLEN", "SUBSTR", "UCASE", "LCASE", "STRSTARTS", "STRENDS"), "string"),
    **dict.fromkeys(("CONTAINS", "STRBEFORE", "STRAFTER", "ENCODE_FOR_URI", "CONCAT", "LANGMATCHES", "STRLANGDIR"), "string"),
    **dict.fromkeys(("REGEX", "REPLACE"), "regex"),
    **dict.fromkeys(("MD5", "SHA1", "SHA256", "SHA384", "SHA512"), "hash"),
    **dict.fromkeys(("YEAR", "MONTH", "DAY", "HOURS", "MINUTES", "SECONDS", "TIMEZONE", "TZ"), "date"),
    **dict.fromkeys(("NOW", "RAND", "UUID", "STRUUID", "BNODE"), "drawn"),
    **dict.fromkeys(CASTS, "cast"),
}
"""The class of each function; extension functions declare their own cost."""

WEIGHTS: Final[Mapping[str, float]] = {
    "column": 1.0,
    "row": 30.0,
    "logic": 3.0,
    "number": 32.0,
    "term": 32.0,
    "string": 45.0,
    "regex": 65.0,
    "cast": 25.0,
    "hash": 80.0,
    "date": 32.0,
    "drawn": 170.0,
}
"""Multiples of ``Constants.evaluate``: a comparison of columns, any other expression for each row, and each call in it by its class."""


def units(expression: Expression) -> Counter[str]:
    """The units of work per row, by the names of :data:`WEIGHTS`."""
    if isinstance(expression, Call) and expression.function == "&&":  # evaluated one operand after the other
        return sum(map(units, expression.arguments), Counter[str]())
    if isinstance(expression, Variable | Constant):
        return Counter(row=1)
    if goes_by_column(expression):
        return _columns(expression)
    return Counter(row=1) + _calls(expression)


def weight(expression: Expression) -> float:
    """The cost of evaluating an expression on a row, relative to a comparison of numbers; extension functions as declared."""
    own = sum(WEIGHTS[name] * count for name, count in units(expression).items())
    return own + sum(function.cost for function in extensions(expression)) / Constants().evaluate


def extensions(expression: Expression) -> Iterator[Extension]:
    """The extension functions that an expression calls, one for each call."""
    if isinstance(expression, Call):
        if (found := extension(expression.function, expression.version)) is not None:
            yield found
        for argument in expression.arguments:
            yield from extensions(argument)


def is_uncertain(expression: Expression) -> bool:
    """Whether an expression calls an uncertainty function, which heuristic H4 evaluates late."""
    return any(function.name in UNCERTAIN for function in extensions(expression))


def _columns(expression: Expression) -> Counter[str]:
    """The units of an expression that is evaluated by the column: texts and times are still compared row by row."""
    if isinstance(expression, Call) and expression.function in ("!", "||"):
        return sum(map(_columns, expression.arguments), Counter[str]())
    if isinstance(expression, Call) and expression.function in COMPARISONS and not all(map(_is_column, expression.arguments)):
        return Counter(row=1) + _calls(expression)
    return Counter(column=1)


def _is_column(expression: Expression) -> bool:
    """Whether a side of a comparison is a column whose ids can be compared directly, unlike those of strings and dates."""
    if isinstance(expression, Constant):
        return not expression.term.startswith('"') or bool(
            term_ids.numeric(term_ids.encode([expression.term], term_ids.PUBLIC))[1][0]
        )
    return isinstance(expression, Variable) or is_call(expression)


def _calls(expression: Expression) -> Counter[str]:
    if isinstance(expression, Exists):  # a column of truth values at this point
        return Counter(logic=1)
    if not isinstance(expression, Call):
        return Counter()
    own = Counter[str]() if is_call(expression) else Counter({CLASSES[expression.function]: 1})
    return sum(map(_calls, expression.arguments), own)


# ------------------------------------------------------------------ measuring them
def measure(timer: Timer = least_seconds) -> dict[str, float]:
    """The weights on this machine."""
    tried = list(experiments())
    seconds = fitted(zip([experiment.work for experiment in tried], timer(tried)))
    return {name: seconds[name] / seconds["column"] for name in WEIGHTS}


def experiments(sizes: tuple[int, ...] = (500, 6_000)) -> Iterator[Experiment]:
    """A condition of each class over rows of distinct numbers ?n, texts ?s and times ?t."""
    n, s, t = Variable("n"), Variable("s"), Variable("t")
    two, text = Constant(f'"2"^^<{INTEGER}>'), Constant('"xt 7"')
    conditions: list[Expression] = [
        _call("<", n, two),
        _call("SAMETERM", n, n),
        _call("!", _call("SAMETERM", n, n)),
        _call("!", _call("!", _call("!", _call("SAMETERM", n, n)))),
        _call("<", _call("+", n, two), two),
        _call("<", _call("*", _call("+", n, two), _call("-", n, two)), two),
        _call("STR", s),
        _call("ISLITERAL", _call("STR", _call("STR", s))),
        _call("CONTAINS", s, text),
        _call("CONTAINS", _call("UCASE", _call("CONCAT", s, text)), text),
        _call("REGEX", s, Constant('"^te.*7$"')),
        _call("REGEX", _call("REPLACE", s, Constant('"[aeiou]"'), text), Constant('"x.*7"')),
        _call(f"<{INTEGER}>", _call("STR", n)),
        _call(f"<{INTEGER}>", _call(f"<{INTEGER}>", n)),
        _call("ISLITERAL", _call("MD5", s)),
        _call("ISLITERAL", _call("SHA256", _call("MD5", s))),
        _call("YEAR", t),
        _call("<", _call("+", _call("HOURS", t), _call("MINUTES", t)), two),
        _call("RAND"),
        _call("ISLITERAL", _call("STRUUID")),
    ]
    for size in sizes:
        texts = {
            "n": [f'"{i}"^^<{INTEGER}>' for i in range(size)],
            "s": [f'"text {i}"' for i in range(size)],
            "t": [f'"2013-02-07T{i // 60 % 24:02}:{i % 60:02}:00.{i:05}Z"^^<{INTEGER[:-7]}dateTime>' for i in range(size)],
        }
        terms = TermTable(term_ids.PUBLIC, None)
        columns = {name: terms.ids(column) for name, column in texts.items()}
        zeros = np.zeros(size, np.int64)
        rows = Rows(columns, zeros, zeros + 1, zeros + 1)
        for condition in conditions:
            found = units(condition)
            part = rows.take(np.tile(np.arange(size), MANY)) if "column" in found else rows
            work = {name: count * len(part) for name, count in found.items()}
            yield Experiment({"filtering": 1, **work}, _run(part, condition, terms))


def _run(rows: Rows, condition: Expression, terms: TermTable) -> Callable[[], object]:
    instants = np.full(len(rows), 1_000) if "drawn" in units(condition) else None
    return lambda: truth(rows, condition, terms, instants)


def _call(function: str, *arguments: Expression) -> Call:
    return Call(function, arguments)
