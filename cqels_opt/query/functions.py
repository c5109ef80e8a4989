"""The table of functions and operators: their names, numbers of arguments and implementations.

Input that is not in the row comes from the :class:`Context`. NOW() is the instant. RAND(), UUID() and STRUUID() are derived from
the call (:attr:`Call.draw`, which no other call of any query has), the instant and the row; BNODE() likewise but without the instant,
so that a row keeps its blank node from instant to instant. Equal rows of a bag get the same values.
"""

from __future__ import annotations

import hashlib
import re
import uuid as uuids
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from cqels_opt.errors import QueryError
from cqels_opt.query import numeric, strings, values
from cqels_opt.query.algebra import TIMESTAMP, Call, Variable
from cqels_opt.query.casts import CASTS
from cqels_opt.query.extensions import extension
from cqels_opt.query.names import resolve
from cqels_opt.query.numeric import ExpressionError
from cqels_opt.query.temporal import Temporal, from_milliseconds, zone_duration, zone_text
from cqels_opt.query.uncertainty import install
from cqels_opt.query.values import Item, number, simple, string, term, value
from cqels_opt.rdf import terms

_LANGUAGE = re.compile(r"[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
MADE: Final = "_:made"
"""The prefix of blank-node labels that BNODE() creates."""


@dataclass(frozen=True, slots=True)
class Context:
    """The instant (ms) at which a row is computed."""

    now: int = 0


NO_CONTEXT: Final = Context()


# ------------------------------------------------------------------ terms
def str_(item: Item) -> Item:
    """STR: the unchanged lexical form of a literal, or the IRI."""
    written = term(item)
    if written.startswith('"'):
        return string(terms.literal_parts(written)[0])
    if terms.is_iri(written):
        return string(written[1:-1])
    raise ExpressionError("a blank node or a triple term has no string")


def _tag_part(place: int) -> Callable[[Item], Item]:
    """LANG and LANGDIR (SPARQL 1.2): the language tag of a literal, or its base direction; ``""`` where it has none."""

    def run(item: Item) -> Item:
        written = term(item)
        if not written.startswith('"'):
            raise ExpressionError("not a literal")
        return string(terms.tag_parts(terms.literal_parts(written)[2] or "")[place])

    return run


def has_lang(item: Item) -> Item:
    """hasLANG (SPARQL 1.2): whether the item is a literal with a language."""
    written = term(item)
    return written.startswith('"') and bool(terms.literal_parts(written)[2])


def has_langdir(item: Item) -> Item:
    """hasLANGDIR (SPARQL 1.2): whether the item is a literal with a base direction."""
    written = term(item)
    return written.startswith('"') and bool(terms.tag_parts(terms.literal_parts(written)[2] or "")[1])


def strdt(lexical: Item, datatype: Item) -> Item:
    """STRDT."""
    written = term(datatype)
    if not terms.is_iri(written) or written in (f"<{terms.RDF_LANG_STRING}>", f"<{terms.RDF_DIR_LANG_STRING}>"):
        raise ExpressionError("not a datatype")
    return terms.literal(simple(lexical), written[1:-1])


def strlang(lexical: Item, tag: Item) -> Item:
    """STRLANG: the tag in lower case, as in all canonical terms."""
    wanted = simple(tag)
    if not _LANGUAGE.fullmatch(wanted):
        raise ExpressionError("not a language tag")
    return string(simple(lexical), wanted)


def strlangdir(lexical: Item, tag: Item, direction: Item) -> Item:
    """STRLANGDIR (SPARQL 1.2): the direction is ``ltr`` or ``rtl``, in lower case."""
    wanted = simple(direction)
    if wanted not in ("ltr", "rtl") or not _LANGUAGE.fullmatch(simple(tag)):
        raise ExpressionError("not a language tag and a base direction")
    return string(simple(lexical), f"{simple(tag)}--{wanted}")


def triple(subject: Item, predicate: Item, item: Item) -> Item:
    """TRIPLE (SPARQL 1.2): the triple term of three terms; an error if they cannot form a triple."""
    s, p, o = term(subject), term(predicate), term(item)
    if not (terms.is_iri(s) or s.startswith("_:")) or not terms.is_iri(p):
        raise ExpressionError("not the parts of a triple")
    made = terms.triple(s, p, o)
    if terms.depth(made) > terms.MAX_DEPTH:
        raise ExpressionError("triple terms are nested too deeply")
    return made


def _part(place: int) -> Callable[[Item], Item]:
    """SUBJECT, PREDICATE and OBJECT (SPARQL 1.2): one component of a triple term."""

    def run(item: Item) -> Item:
        written = term(item)
        if not terms.is_triple(written):
            raise ExpressionError("not a triple term")
        return terms.triple_parts(written)[place]

    return run


def make_iri(item: Item, base: Item) -> Item:
    """IRI and URI: resolves a string against the query's base, a term (``""``: no base)."""
    written = term(item)
    if terms.is_iri(written):
        return written
    reference = simple(item)
    if base:
        reference = resolve(str(base)[1:-1], reference)
    try:
        found = terms.iri(reference)
    except terms.TermError as error:
        raise ExpressionError(str(error)) from error
    if not _ABSOLUTE.match(reference):
        raise ExpressionError("a relative IRI without a base")
    return found


def is_numeric(item: Item) -> Item:
    """ISNUMERIC: a literal of a numeric type with a valid lexical form."""
    return values.is_number(value(item))


# ------------------------------------------------------------------ dates
def _field(kinds: str, read: Callable[[Temporal], int | Decimal]) -> Callable[[Item], Item]:
    wanted = kinds.split()

    def run(item: Item) -> Item:
        found = value(item)
        if not isinstance(found, Temporal) or found.kind not in wanted:
            raise ExpressionError("not a dateTime")
        return read(found)

    return run


def timezone(item: Item) -> Item:
    """TIMEZONE: an error if there is no zone."""
    found = value(item)
    if not isinstance(found, Temporal) or found.zone is None:
        raise ExpressionError("no time zone")
    return terms.literal(zone_duration(found.zone), terms.XSD_DAYTIME_DURATION)


def tz(item: Item) -> Item:
    """TZ: ``""`` if there is no zone."""
    found = value(item)
    if not isinstance(found, Temporal):
        raise ExpressionError("not a dateTime")
    return string(zone_text(found.zone))


# ------------------------------------------------------------------ functions of the context
def _drawn(row: Mapping[str, str], *parts: object) -> bytes:
    seen = sorted((name, text) for name, text in row.items() if not text.startswith(MADE))
    return hashlib.sha256(repr((seen, parts)).encode()).digest()


def _now(context: Context, row: Mapping[str, str], draw: str) -> Item:
    return terms.literal(str(from_milliseconds(context.now)), terms.XSD_DATETIME)


def _rand(context: Context, row: Mapping[str, str], draw: str) -> Item:
    return (int.from_bytes(_drawn(row, draw, context.now)[:8], "big") >> 11) / (1 << 53)


def _uuid(context: Context, row: Mapping[str, str], draw: str) -> str:
    return str(uuids.UUID(bytes=_drawn(row, draw, context.now)[:16], version=4))


def _bnode(context: Context, row: Mapping[str, str], draw: str, label: Item | None = None) -> Item:
    drawn = _drawn(row, draw) if label is None else _drawn(row, "label", simple(label))
    return MADE + drawn.hex()[:24]


CONTEXTUAL: Final[dict[str, Callable[..., Item]]] = {
    "NOW": _now,
    "RAND": _rand,
    "UUID": lambda context, row, draw: f"<urn:uuid:{_uuid(context, row, draw)}>",
    "STRUUID": lambda context, row, draw: string(_uuid(context, row, draw)),
    "BNODE": _bnode,
}
INSTANT_DEPENDENT: Final = frozenset({"NOW", "RAND", "UUID", "STRUUID", TIMESTAMP})
SEEDED: Final = frozenset({"RAND", "UUID", "STRUUID", "BNODE"})
"""Functions whose value depends on all bindings of a row at the time of evaluation."""


# ------------------------------------------------------------------ the tables
def _numeric(operation: Callable[..., Any]) -> Callable[..., Item]:
    def run(*items: Item) -> Item:
        found: Item = operation(*map(number, items))
        return found

    return run


FUNCTIONS: Final[dict[str, Callable[..., Item]]] = {
    "=": values.equal,
    "!=": lambda a, b: not values.equal(a, b),
    "<": values.less,
    ">": values.greater,
    "<=": values.less_or_equal,
    ">=": values.greater_or_equal,
    "!": lambda item: not values.effective_boolean(item),
    "+": _numeric(numeric.add),
    "-": _numeric(numeric.subtract),
    "*": _numeric(numeric.multiply),
    "/": _numeric(numeric.divide),
    "UNARY-": _numeric(numeric.negate),
    "UNARY+": number,
    "ABS": _numeric(numeric.absolute),
    "ROUND": _numeric(numeric.rounded),
    "CEIL": _numeric(numeric.ceiling),
    "FLOOR": _numeric(numeric.floor),
    "SAMETERM": lambda a, b: term(a) == term(b),
    "ISIRI": lambda item: terms.is_iri(term(item)),
    "ISURI": lambda item: terms.is_iri(term(item)),
    "ISBLANK": lambda item: term(item).startswith("_:"),
    "ISLITERAL": lambda item: term(item).startswith('"'),
    "ISNUMERIC": is_numeric,
    "ISTRIPLE": lambda item: terms.is_triple(term(item)),
    "TRIPLE": triple,
    **{name: _part(place) for place, name in enumerate(("SUBJECT", "PREDICATE", "OBJECT"))},
    "STR": str_,
    "LANG": _tag_part(0),
    "LANGDIR": _tag_part(1),
    "HASLANG": has_lang,
    "HASLANGDIR": has_langdir,
    "STRLANGDIR": strlangdir,
    "DATATYPE": lambda item: f"<{values.datatype(item)}>",
    "IRI": make_iri,
    "URI": make_iri,
    "STRDT": strdt,
    "STRLANG": strlang,
    "STRLEN": strings.strlen,
    "SUBSTR": strings.substr,
    "UCASE": strings.ucase,
    "LCASE": strings.lcase,
    "STRSTARTS": strings.testing(str.startswith),
    "STRENDS": strings.testing(str.endswith),
    "CONTAINS": strings.testing(str.__contains__),
    "STRBEFORE": strings.strbefore,
    "STRAFTER": strings.strafter,
    "ENCODE_FOR_URI": strings.encode_for_uri,
    "CONCAT": strings.concat,
    "LANGMATCHES": strings.langmatches,
    "REGEX": strings.regex,
    "REPLACE": strings.replaced,
    **{name: strings.hashing(name.lower()) for name in ("MD5", "SHA1", "SHA256", "SHA384", "SHA512")},
    "YEAR": _field("dateTime date", lambda t: t.year),
    "MONTH": _field("dateTime date", lambda t: t.month),
    "DAY": _field("dateTime date", lambda t: t.day),
    "HOURS": _field("dateTime time", lambda t: t.hour),
    "MINUTES": _field("dateTime time", lambda t: t.minute),
    "SECONDS": _field("dateTime time", lambda t: t.second),
    "TIMEZONE": timezone,
    "TZ": tz,
    **CASTS,
}

_NULLARY = ("NOW", "RAND", "UUID", "STRUUID")
_BINARY_OPERATORS = ("=", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/")
_BINARY = ("SAMETERM", "STRDT", "STRLANG", "STRSTARTS", "STRENDS", "CONTAINS", "STRBEFORE", "STRAFTER", "LANGMATCHES")
ARITIES: Final[dict[str, tuple[int, int | None]]] = {
    **dict.fromkeys(FUNCTIONS, (1, 1)),
    **dict.fromkeys((*_BINARY_OPERATORS, *_BINARY), (2, 2)),
    **dict.fromkeys(_NULLARY, (0, 0)),
    "&&": (1, None),
    "||": (1, None),
    "IN": (1, None),
    "NOT IN": (1, None),
    "IF": (3, 3),
    "COALESCE": (0, None),
    "BOUND": (1, 1),
    TIMESTAMP: (3, 3),
    "BNODE": (0, 1),
    "IRI": (1, 2),  # the second argument is the query's base, added by the parser
    "CONCAT": (0, None),
    "STRLANGDIR": (3, 3),
    "TRIPLE": (3, 3),
    "SUBSTR": (2, 3),
    "REGEX": (2, 3),
    "REPLACE": (3, 4),
}
"""The least and the greatest number of arguments (None: any) of every callable name."""

install()


def check_call(call: Call) -> None:
    """Raises QueryError if a function is unknown or called with a wrong number of arguments."""
    known = extension(call.function, call.version)
    bounds = ARITIES.get(call.function) if known is None else (known.least, known.most)
    if bounds is None:
        raise QueryError(f"the function {call.function} is not supported")
    low, high = bounds
    given = len(call.arguments)
    if given < low or (high is not None and given > high):
        wanted = f"{low}" if low == high else f"at least {low}" if high is None else f"{low} to {high}"
        raise QueryError(f"{call.function} takes {wanted} argument{'s' * (wanted != '1')}, not {given}")
    if call.function == "BOUND" and not isinstance(call.arguments[0], Variable):
        raise QueryError("BOUND takes a variable")
