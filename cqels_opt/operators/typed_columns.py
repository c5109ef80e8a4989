"""Columns of answers as Spark SQL types instead of N-Triples terms: ``types={"delay": "long"}`` of a registered query.

A value that is not of the type is null, and is counted. Only the lexical form decides: ``"5"`` and ``"5"^^xsd:integer`` are both 5.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from cqels_opt.errors import InputError
from cqels_opt.rdf.terms import unescape

ColumnTypes: TypeAlias = "tuple[tuple[str, str], ...]"
"""The Spark SQL type of some variables."""

LANGUAGE: Final = "struct<value:string,lang:string>"
_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_ZONE = r"(?:Z|[+-][0-9]{2}:[0-9]{2})?"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_KINDS: Final[dict[str, tuple[pa.DataType, str]]] = {
    "boolean": (pa.bool_(), "true|false|1|0"),
    "int": (pa.int32(), r"[+-]?[0-9]+(?:\.0*)?"),
    "long": (pa.int64(), r"[+-]?[0-9]+(?:\.0*)?"),
    "float": (pa.float32(), rf"{_NUMBER}(?:[eE][+-]?[0-9]+)?|[+-]?INF|NaN"),
    "double": (pa.float64(), rf"{_NUMBER}(?:[eE][+-]?[0-9]+)?|[+-]?INF|NaN"),
    "date": (pa.date32(), _DATE + _ZONE),
    "timestamp": (pa.timestamp("us", "UTC"), rf"{_DATE}T[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:\.[0-9]+)?{_ZONE}"),
}
"""The Arrow type of a Spark SQL type, and its lexical forms."""

_SYNONYMS: Final = {"bigint": "long", "integer": "int", "bool": "boolean"}
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_LITERAL = r'^"(?P<lexical>.*)"(?P<rest>@[A-Za-z0-9-]+|\^\^<[^>]*>)?$'


def column_types(types: Mapping[str, str], variables: Sequence[str]) -> ColumnTypes:
    """Checks the types that a user gives for variables of a SELECT. Raises InputError."""
    found = []
    for given, written in types.items():
        name = given.removeprefix("?")
        if name not in variables:
            selected = ", ".join(f"?{v}" for v in variables if not v.startswith(".")) or "nothing"
            raise InputError(f"types: there is no ?{name} in SELECT; it selects {selected}")
        found.append((name, _canonical(name, written)))
    return tuple(found)


def _canonical(name: str, written: str) -> str:
    text = "".join(written.lower().split())
    text = _SYNONYMS.get(text, text)
    decimal = _DECIMAL.fullmatch(text)
    if (
        text in _KINDS
        or text in ("string", LANGUAGE)
        or (decimal and 0 < int(decimal[1]) <= 38 and int(decimal[2]) <= int(decimal[1]))
    ):
        return text
    known = ", ".join([*_KINDS, "decimal(p,s)", "string", LANGUAGE])
    raise InputError(f"types: ?{name}: {written!r} is not a type of a column; the types are {known}")


def arrow_type(type_of: str) -> pa.DataType:
    """The Arrow type of a column."""
    if type_of == LANGUAGE:
        return pa.struct([("value", pa.string()), ("lang", pa.string())])
    if (decimal := _DECIMAL.fullmatch(type_of)) is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return pa.string() if type_of == "string" else _KINDS[type_of][0]


def typed(terms: Any, type_of: str) -> tuple[Any, int]:
    """A column of N-Triples terms as a type, and the number of terms that are not of the type: they are null."""
    parts = pc.extract_regex(terms, _LITERAL)
    lexical, rest = pc.struct_field(parts, "lexical"), pc.struct_field(parts, "rest")
    literals = pc.is_valid(parts)
    lexical = _unescaped(pc.if_else(literals, lexical, None))
    if type_of in ("string", LANGUAGE):
        iris = pc.starts_with(terms, "<")
        plain = pc.if_else(pc.and_(iris, pc.invert(pc.starts_with(terms, "<<"))), pc.utf8_slice_codeunits(terms, 1, -1), terms)
        value = pc.if_else(literals, lexical, plain)
        if type_of == "string":
            return value, 0
        tag = pc.if_else(pc.fill_null(pc.starts_with(rest, "@"), False), pc.utf8_slice_codeunits(rest, 1), None)
        return pa.StructArray.from_arrays([value, tag], ["value", "lang"], mask=pc.is_null(terms)), 0
    lexical, to = _normal(lexical, type_of), arrow_type(type_of)
    found = _decimals(lexical, to) if isinstance(to, pa.Decimal128Type) else _cast(lexical, to)
    return found, int(found.null_count - terms.null_count)


def _unescaped(texts: Any) -> Any:
    escaped = pc.fill_null(pc.match_substring(texts, "\\"), False)
    if not pc.any(escaped).as_py():
        return texts
    return pc.replace_with_mask(texts, escaped, pa.array(list(map(unescape, texts.filter(escaped).to_pylist())), pa.string()))


def _normal(lexical: Any, type_of: str) -> Any:
    """The lexical forms as Arrow reads them; null where a form is not one of the type."""
    forms = _KINDS[type_of][1] if type_of in _KINDS else _NUMBER
    lexical = pc.utf8_trim(lexical, " \t\r\n")
    lexical = pc.if_else(pc.match_substring_regex(lexical, f"^(?:{forms})$"), lexical, None)
    if type_of in ("int", "long"):
        return pc.replace_substring_regex(lexical, r"^\+|\.0*$", "")
    if type_of == "date":
        return pc.utf8_slice_codeunits(lexical, 0, 10)
    if type_of == "timestamp":
        lexical = pc.replace_substring_regex(lexical, r"(\.[0-9]{6})[0-9]+", r"\1")
        zoned = pc.match_substring_regex(lexical, "(?:Z|[+-][0-9]{2}:[0-9]{2})$")
        return pc.if_else(zoned, lexical, pc.binary_join_element_wise(lexical, "Z", ""))
    return pc.replace_substring_regex(lexical, r"^\+", "")


def _cast(texts: Any, to: pa.DataType) -> Any:
    """Casts at once. Halves are cast if some are not of the type, such as the 31st of February or a number that is too large."""
    try:
        return pc.cast(texts, to)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return pa.array([None], to)
        half = len(texts) // 2
        return pa.concat_arrays([_cast(texts[:half], to), _cast(texts[half:], to)])


def _decimals(texts: Any, to: pa.Decimal128Type[Any, Any]) -> Any:
    """Rounds to the scale, half up, as Spark's cast does."""
    try:
        return pc.cast(pc.round(pc.cast(texts, pa.decimal256(76, 37)), to.scale, "half_towards_infinity"), to)
    except pa.ArrowInvalid:  # too many digits, in some value
        return pa.array([None if text is None else _rounded(text, to) for text in texts.to_pylist()], to)


def _rounded(text: str, to: pa.Decimal128Type[Any, Any]) -> Decimal | None:
    with localcontext(prec=len(text) + to.scale + 1):
        rounded = Decimal(text).quantize(Decimal(1).scaleb(-to.scale), ROUND_HALF_UP)
    return rounded if rounded.adjusted() < to.precision - to.scale or not rounded else None


def typed_columns(terms_of: Mapping[str, Any], types: ColumnTypes, lost: Counter[str] | None) -> dict[str, Any]:
    """The columns of answers, those with a type converted; ``lost`` counts the values that are not of their type, by variable."""
    found = dict(terms_of)
    for name, type_of in types:
        found[name], null = typed(_whole(terms_of[name]), type_of)
        if null and lost is not None:
            lost[name] += null
    return found


def _whole(column: Any) -> Any:
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return column if column.type == pa.string() else pc.cast(column, pa.string())
