"""64-bit ids of canonical terms.

Ids need no coordination: every executor assigns a term the same id. ``id >> 60`` is the kind. Canonical integers, decimals and
booleans are *inline*: the id contains the value, without a dictionary lookup. Every other id is a 60-bit keyed hash of the
canonical text (SipHash-2-4). The key is secret and random, one per store, so nobody can construct terms with equal ids. Two terms
can still have equal ids by chance: code that adds a term compares its text with the text that has the id
(:class:`CollisionError`), and the later term gets a second id, recorded in the :class:`IdScheme`. Ids are never negative; 0 means
unbound. The id of a triple term does not contain its components: the store has relations from its id to theirs, and streams
report them as they are read.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pandas.util import hash_array

from cqels_opt.errors import InputError, RunError
from cqels_opt.rdf.terms import OPENING, XSD_BOOLEAN, XSD_DECIMAL, XSD_INTEGER
from cqels_opt.rdf.times import mask_of

Ids: TypeAlias = NDArray[np.int64]

HASH_BITS: Final = 60  # bits of a hash id; tests use fewer, so that ids collide
KEY_VARIABLE: Final = "CQELS_OPT_TERM_KEY"

KIND_IRI: Final = 1
KIND_BLANK: Final = 2
KIND_LITERAL: Final = 3
KIND_INTEGER: Final = 4
KIND_DECIMAL: Final = 5
KIND_BOOLEAN: Final = 6
KIND_QUOTED: Final = 7
KIND_SHIFT: Final = 60
INLINE: Final = (KIND_INTEGER, KIND_DECIMAL, KIND_BOOLEAN)
"""The kinds of ids that contain their value; the others are hashes, uniformly distributed over 60 bits."""

_PAYLOAD: Final = (1 << 60) - 1
_INTEGER_ZERO: Final = 1 << 59
LARGEST_INTEGER: Final = _INTEGER_ZERO - 1
"""The largest integer that its id has; a larger one is hashed."""
_DECIMAL_ZERO: Final = 1 << 55
_MANTISSA: Final = (1 << 56) - 1
_MAX_SCALE: Final = 15

_INTEGER_TAIL: Final = f'"^^<{XSD_INTEGER}>'
_DECIMAL_TAIL: Final = f'"^^<{XSD_DECIMAL}>'
_BOOLEANS: Final = (f'"false"^^<{XSD_BOOLEAN}>', f'"true"^^<{XSD_BOOLEAN}>')
TRUE_ID: Final = KIND_BOOLEAN << KIND_SHIFT | 1


class CollisionError(RunError):
    """Different terms have the same id. ``losers`` are those that need another one: all except the first."""

    def __init__(self, losers: Iterable[str]) -> None:
        self.losers = tuple(dict.fromkeys(losers))
        super().__init__(f"the id of {self.losers[0]} is that of another term")

    def __reduce__(self) -> Any:
        return CollisionError, (self.losers,)


# ------------------------------------------------------------------ key and second ids
@dataclass(frozen=True)
class IdScheme:
    """What determines the ids of a store and its runs: the ``key`` (32 hexadecimal digits) and the terms with a second id."""

    key: str
    displaced: tuple[tuple[str, int], ...] = ()

    @classmethod
    def new(cls) -> IdScheme:
        """A new random key, or the key in the environment, for reproducible tests."""
        key = os.environ.get(KEY_VARIABLE) or secrets.token_hex(16)
        if not re.fullmatch("[0-9a-f]{32}", key):
            raise InputError(f"{KEY_VARIABLE} must be 32 hexadecimal digits (0-9, a-f): unset it, and the key is random")
        return cls(key)

    @classmethod
    def of_seed(cls, seed: int) -> IdScheme:
        """The key made of a number, for ids that need no secret."""
        return cls(f"{seed:016x}".encode().hex())

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> IdScheme:
        """The scheme in the header of a store or checkpoint (:meth:`as_header`)."""
        return cls(str(header["key"]), tuple((str(text), int(term_id)) for text, term_id in header["displaced"]))

    def as_header(self) -> dict[str, Any]:
        """The header entries."""
        return {"key": self.key, "displaced": [list(pair) for pair in self.displaced]}

    @cached_property
    def hash_key(self) -> str:
        """The key in the form that pandas requires: 16 ASCII characters, which keep 112 of the 128 bits."""
        return "".join(chr(byte & 0x7F) for byte in bytes.fromhex(self.key))

    @cached_property
    def _second(self) -> tuple[pa.StringArray, Ids]:
        texts, ids = [text for text, _ in self.displaced], [term_id for _, term_id in self.displaced]
        return pa.array(texts, pa.string()), np.array(ids, np.int64)

    def with_displaced(self, displaced: Iterable[tuple[str, int]]) -> IdScheme:
        """The same key, with second ids for more terms."""
        both = dict(displaced) | dict(self.displaced)
        return self if len(both) == len(self.displaced) else replace(self, displaced=tuple(both.items()))

    def displacing(self, losers: Iterable[str]) -> IdScheme:
        """The scheme in which these terms have new ids: the hash of the text and a counter.

        Encoding the term again shows whether the new id is free; if it is not, the term is displaced once more.
        """
        found = dict(self.displaced)
        for text in sorted(set(losers)):
            hashed = _hashes(pa.array([f"{text}\0{attempt}" for attempt in range(ATTEMPTS)]), self).tolist()
            ids = list(dict.fromkeys(hashed))  # never try an id twice
            tried = ids.index(found[text]) + 1 if found.get(text) in ids else 0
            taken = {encode_one(text, IdScheme(self.key)), *found.values()}
            free = [term_id for term_id in ids[tried:] if term_id not in taken]
            if not free:
                raise RunError(f"no id is left for {text}: there are too many terms for ids of {HASH_BITS} bits")
            found[text] = free[0]
        return replace(self, displaced=tuple(found.items()))


ATTEMPTS: Final = 64
PUBLIC: Final = IdScheme.of_seed(0x5EED_0F_C0E1_0001)
"""The scheme of stores of format 3 or older, whose key is public. New stores never use it."""


# ------------------------------------------------------------------ text -> id
def encode(texts: Sequence[str] | pa.StringArray, scheme: IdScheme) -> Ids:
    """The ids of canonical terms. Pass distinct terms where possible: equal terms are hashed repeatedly."""
    array = _strings(texts)
    if array.null_count:
        raise ValueError("a term is missing")
    if len(array) == 0:
        return np.empty(0, np.int64)
    ids = _hashes(array, scheme)
    for tail, inline in ((_INTEGER_TAIL, _integers), (_DECIMAL_TAIL, _decimals)):
        candidates = np.flatnonzero(mask_of(pc.ends_with(array, tail)))
        if len(candidates):
            lexical = pc.utf8_slice_codeunits(array.take(candidates), 1, -len(tail))
            kept, values = inline(lexical)
            ids[candidates[kept]] = values
    for value, text in enumerate(_BOOLEANS):
        ids[mask_of(pc.equal(array, pa.scalar(text)))] = KIND_BOOLEAN << KIND_SHIFT | value
    if scheme.displaced:
        displaced, second = scheme._second
        places: Any = pc.index_in(array, value_set=displaced)
        found: Any = pc.fill_null(places, -1)
        place = found.to_numpy(zero_copy_only=False)
        ids[place >= 0] = second[place[place >= 0]]
    return ids


def encode_one(text: str, scheme: IdScheme) -> int:
    """The id of one canonical term."""
    return int(encode([text], scheme)[0])


def _strings(texts: Sequence[str] | pa.StringArray) -> pa.StringArray:
    return texts if isinstance(texts, pa.StringArray) else pa.array(texts, pa.string())


def _hashes(array: pa.StringArray, scheme: IdScheme) -> Ids:
    objects = array.to_numpy(zero_copy_only=False)
    hashed = hash_array(objects, hash_key=scheme.hash_key, categorize=False) & np.uint64((1 << HASH_BITS) - 1)
    kinds = np.full(len(array), KIND_LITERAL, np.uint64)
    kinds[mask_of(pc.starts_with(array, "<"))] = KIND_IRI
    kinds[mask_of(pc.starts_with(array, OPENING))] = KIND_QUOTED
    kinds[mask_of(pc.starts_with(array, "_:"))] = KIND_BLANK
    return (kinds << np.uint64(KIND_SHIFT) | hashed).astype(np.int64)


def _lengths(lexical: pa.StringArray) -> Ids:
    return pc.binary_length(lexical).to_numpy(zero_copy_only=False).astype(np.int64)


def _integers(lexical: pa.StringArray) -> tuple[NDArray[np.bool_], Ids]:
    kept = mask_of(pc.match_substring_regex(lexical, r"^(0|-?[1-9][0-9]{0,17})$"))
    values: Ids = lexical.filter(pa.array(kept)).cast(pa.int64()).to_numpy(zero_copy_only=False)
    fits = (values >= -_INTEGER_ZERO) & (values < _INTEGER_ZERO)
    kept[kept] = fits
    return kept, (values[fits] + _INTEGER_ZERO) | KIND_INTEGER << KIND_SHIFT


def integer_ids(values: Ids) -> Ids:
    """The ids of integers in canonical form; each must fit into 59 bits, as every time does."""
    return (values + _INTEGER_ZERO) | KIND_INTEGER << KIND_SHIFT


def _decimals(lexical: pa.StringArray) -> tuple[NDArray[np.bool_], Ids]:
    pattern = rf"^-?(0|[1-9][0-9]{{0,16}})\.[0-9]{{1,{_MAX_SCALE}}}$"
    kept = mask_of(pc.match_substring_regex(lexical, pattern)) & (_lengths(lexical) <= 19)
    texts = lexical.filter(pa.array(kept))
    scales = _lengths(texts) - 1 - pc.find_substring(texts, ".").to_numpy(zero_copy_only=False).astype(np.int64)
    mantissas: Ids = pc.replace_substring(texts, ".", "").cast(pa.int64()).to_numpy(zero_copy_only=False)
    # the mantissa of -0.0 loses the sign
    negative_zero = (mantissas == 0) & mask_of(pc.starts_with(texts, "-"))
    fits = (mantissas >= -_DECIMAL_ZERO) & (mantissas < _DECIMAL_ZERO) & ~negative_zero
    kept[kept] = fits
    return kept, KIND_DECIMAL << KIND_SHIFT | scales[fits] << 56 | (mantissas[fits] + _DECIMAL_ZERO)


# ------------------------------------------------------------------ id -> value
def kinds(ids: Ids) -> NDArray[np.int64]:
    """The kind of each id (0 for unbound)."""
    return ids >> KIND_SHIFT


def is_inline(ids: Ids) -> NDArray[np.bool_]:
    """Which ids contain their value."""
    kind = ids >> KIND_SHIFT
    return (kind >= KIND_INTEGER) & (kind <= KIND_BOOLEAN)


def inline_text(term_id: int) -> str | None:
    """The canonical text of an inline id; None for every other id."""
    kind = term_id >> KIND_SHIFT
    if kind == KIND_INTEGER:
        return f'"{(term_id & _PAYLOAD) - _INTEGER_ZERO}{_INTEGER_TAIL}'
    if kind == KIND_DECIMAL:
        mantissa, scale = (term_id & _MANTISSA) - _DECIMAL_ZERO, term_id >> 56 & 15
        digits = f"{abs(mantissa):0{scale + 1}d}"
        return f'"{"-" if mantissa < 0 else ""}{digits[:-scale]}.{digits[-scale:]}{_DECIMAL_TAIL}'
    if kind == KIND_BOOLEAN:
        return _BOOLEANS[term_id & 1]
    return None


def inline_texts(ids: Ids) -> list[str | None]:
    """The canonical texts of inline ids; None for the others."""
    if not is_inline(ids).any():
        return [None] * len(ids)
    return [inline_text(term_id) for term_id in ids.tolist()]


def numeric(ids: Ids) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The values of inline numbers (NaN elsewhere), and a mask of where comparing these floats is exact.

    Integers are exact up to 2**53; decimals up to 15 significant digits, because different decimals of 15 digits always have
    different nearest floats. Where the mask is False and the id is a number, compare the exact values of the texts.
    """
    values = np.full(len(ids), np.nan)
    exact = np.zeros(len(ids), np.bool_)
    kind = ids >> KIND_SHIFT
    at = kind == KIND_INTEGER
    integers = (ids[at] & _PAYLOAD) - _INTEGER_ZERO
    values[at] = integers
    exact[at] = np.abs(integers) <= 1 << 53
    at = kind == KIND_DECIMAL
    mantissas = (ids[at] & _MANTISSA) - _DECIMAL_ZERO
    values[at] = mantissas / np.power(10.0, (ids[at] >> 56) & 15)
    exact[at] = np.abs(mantissas) < 10**15
    return values, exact


def numeric_parts(ids: Ids) -> tuple[Ids, Ids]:
    """Mantissa and scale of inline numbers: the value is mantissa / 10**scale; (0, 0) for every other id."""
    mantissa, scale = np.zeros(len(ids), np.int64), np.zeros(len(ids), np.int64)
    kind = ids >> KIND_SHIFT
    at = kind == KIND_INTEGER
    mantissa[at] = (ids[at] & _PAYLOAD) - _INTEGER_ZERO
    at = kind == KIND_DECIMAL
    mantissa[at] = (ids[at] & _MANTISSA) - _DECIMAL_ZERO
    scale[at] = (ids[at] >> 56) & 15
    return mantissa, scale


def in_order_of_terms(ids: Ids) -> Ids | None:
    """Numbers in the order of inline integers and decimals as terms: by value, and equal values by text. None if some id is another one,
    or a number is too large.
    """
    kind = kinds(ids)
    if (kind == KIND_INTEGER).all():
        return ids
    if not ((kind == KIND_INTEGER) | (kind == KIND_DECIMAL)).all():
        return None
    mantissa, scale = numeric_parts(ids)
    digits = int(scale.max(initial=0))
    if (np.abs(mantissa) * 10.0 ** (digits - scale)).max(initial=0) >= 1 << 58:
        return None
    return mantissa * 10 ** (digits - scale) << 4 | scale  # of equal values the one with fewer digits has the least text


# ------------------------------------------------------------------ collisions
def once(ids: Ids, texts: pa.StringArray) -> tuple[Ids, pa.StringArray]:
    """The distinct ids in ascending order, with their texts. CollisionError if an id has two texts."""
    order = np.argsort(ids, kind="stable")
    check_collisions(ids, texts, order)
    rising = ids[order]
    first = np.append(np.ones(min(1, len(ids)), bool), rising[1:] != rising[:-1])
    return rising[first], texts.take(pa.array(order[first]))


def check_collisions(ids: Ids, texts: Sequence[str] | pa.StringArray, order: Ids | None = None) -> None:
    """Raises CollisionError if an id has different texts; the least text keeps it. Equal (id, text) pairs may repeat.

    ``order`` sorts the ids, if the caller has it.
    """
    order = np.argsort(ids, kind="stable") if order is None else order
    sorted_ids = ids[order]
    same = np.flatnonzero(sorted_ids[1:] == sorted_ids[:-1])
    if not len(same):
        return
    array = _strings(texts)
    left, right = array.take(order[same]), array.take(order[same + 1])
    clash = np.flatnonzero(mask_of(pc.not_equal(left, right)))
    if not len(clash):
        return
    losers: list[str] = []
    for term_id in np.unique(sorted_ids[same[clash]]).tolist():
        group = order[np.searchsorted(sorted_ids, term_id) : np.searchsorted(sorted_ids, term_id, "right")]
        losers += sorted({str(text) for text in array.take(group).to_pylist()})[1:]
    raise CollisionError(losers)


def chosen(texts: pa.StringArray, which: NDArray[np.bool_]) -> list[str]:
    """The texts that the mask selects."""
    return [str(text) for text in texts.filter(pa.array(which)).to_pylist()]
