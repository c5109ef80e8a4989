"""Parses the values of options. Each function takes the text of one value and raises InputError."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cqels_opt.cli.options import PLANS, Address
from cqels_opt.errors import InputError
from cqels_opt.query.durations import parse_positive_duration
from cqels_opt.rdf.terms import ABSOLUTE_IRI
from cqels_opt.windows.batch_size import BatchSize

if TYPE_CHECKING:
    from cqels_opt.windows.instants import Policy


def parse_batch(text: str) -> BatchSize:
    """``100`` is a number of elements, ``500ms`` a span of stream time."""
    if not text.isdecimal():
        return BatchSize(duration=parse_positive_duration(text))
    digits = text.lstrip("0")
    if not digits:
        raise InputError("a micro-batch has at least 1 element")
    if len(digits) > 18:
        raise InputError("that is more elements than a stream has: write at most 18 digits")
    return BatchSize(count=int(digits))


def parse_bytes(text: str) -> int:
    """Bytes: ``0``, ``500k``, ``64M`` or ``4G``, in powers of 1024."""
    found = re.fullmatch(r"(\d+)([kMG]?)", text)
    if found is None:
        raise InputError(f"{text!r} is no size: write a number of bytes, or 500k, 64M, 4G")
    return int(found[1]) << {"": 0, "k": 10, "M": 20, "G": 30}[found[2]]


def parse_address(text: str) -> Address:
    """``PORT`` on 127.0.0.1, or ``HOST:PORT``; an IPv6 address in square brackets."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") and host.endswith("]") else host
    bare = not text.startswith("[") and ":" in host
    if not re.fullmatch(r"\d{1,5}", port) or int(port) > 65535 or (colon and not host) or bare:
        raise InputError(f"{text!r} is no address: write PORT, HOST:PORT or [IPV6]:PORT, with a port up to 65535")
    return Address(host or "127.0.0.1", int(port))


def parse_iri(text: str) -> str:
    """An absolute IRI, with or without angle brackets."""
    iri = text[1:-1] if text.startswith("<") and text.endswith(">") else text
    if not ABSOLUTE_IRI.fullmatch(iri):
        raise InputError(f"{text!r} is no absolute IRI, like http://example.org/stream")
    return iri


def parse_t0(text: str) -> tuple[str, int]:
    """``MS`` or ``NAME=MS``: the window's name (``""`` for all) and its origin."""
    from cqels_opt.rdf.times import GREATEST

    name, _, milliseconds = text.rpartition("=")
    if not re.fullmatch(r"[+-]?\d+", milliseconds) or text.startswith("="):
        raise InputError(f"{text!r} is no origin of time: write MS or NAME=MS, in whole milliseconds")
    if len(milliseconds.lstrip("+-0")) > 18 or abs(int(milliseconds)) > GREATEST:
        raise InputError("no origin of time is more than 2^53 milliseconds before or after 1970")
    return _window_name(name), int(milliseconds)


def parse_report(text: str) -> tuple[str, Policy]:
    """``wc,nc`` or ``NAME=p:10s``: the window's name (``""`` for all) and its report policy."""
    from cqels_opt.compiler.dialect_profile import parse_policy

    name, _, policy = text.rpartition("=")
    if text.startswith("="):
        raise InputError(f"{text!r} names no window: write NAME=POLICIES")
    return _window_name(name), parse_policy(policy)


def parse_plan(text: str) -> tuple[str, str | None]:
    """The plan policy, and the plans' text of ``fixed:PLANS``."""
    policy, colon, plans = text.partition(":")
    if policy == "fixed" and colon and plans.strip():
        return "fixed", plans.strip()
    if text in PLANS:
        return text, None
    raise InputError(f"{text!r} is no plan policy: choose from {', '.join(PLANS)}, or give fixed:PLANS")


def _window_name(text: str) -> str:
    return text.removeprefix("?")


def parse_positive(text: str) -> int:
    """A number, at least 1."""
    if not text.isdecimal() or int(text) == 0:
        raise InputError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def parse_limit_of_bytes(text: str) -> int:
    """A size, at least 1 byte."""
    if (size := parse_bytes(text)) == 0:
        raise InputError(f"{text!r} is no size: a limit is at least 1 byte")
    return size


def parse_setting(text: str) -> tuple[str, str]:
    """``spark.name=value``."""
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise InputError(f"{text!r} is no setting of Spark: write spark.NAME=VALUE")
    return key, value


def parse_days(text: str) -> int:
    """A number of days of 2013."""
    if not text.isdecimal() or not 1 <= int(text) <= 365:
        raise InputError(f"{text!r} is no number of days from 1 to 365")
    return int(text)


def parse_batch_number(text: str) -> int:
    """The number of a micro-batch."""
    if not text.isdecimal():
        raise InputError(f"{text!r} is no number of a micro-batch: write 0 or more")
    return int(text)


def parse_batch_count(text: str) -> int:
    """A number of micro-batches."""
    if not text.isdecimal() or int(text) == 0:
        raise InputError(f"{text!r} is no number of micro-batches: write 1 or more")
    return int(text)
