"""JSON documents that carry a digest of their content: a changed byte is found when the document is read."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

_HEAD: Final = b'{"digest": "'
_MIDDLE: Final = b'", "content": '
_END: Final = b"}\n"
_SIZE: Final = 32  # hexadecimal digits of a digest


def digest(content: bytes) -> str:
    """A digest of some bytes."""
    return hashlib.blake2b(content, digest_size=_SIZE // 2).hexdigest()


def encode(value: Any) -> bytes:
    """A value as a document: a JSON object of the digest and the content."""
    content = json.dumps(value, ensure_ascii=False).encode()
    return b"".join([_HEAD, digest(content).encode(), _MIDDLE, content, _END])


def decode(document: bytes) -> Any:
    """The value of a document; ValueError where a byte of it differs from what was written."""
    start = len(_HEAD) + _SIZE
    head, middle = document[: len(_HEAD)], document[start : start + len(_MIDDLE)]
    if (head, middle, document[-len(_END) :]) != (_HEAD, _MIDDLE, _END):
        raise ValueError("it is no document with a digest, or cut off")
    content = document[start + len(_MIDDLE) : -len(_END)]
    if digest(content).encode() != document[len(_HEAD) : start]:
        raise ValueError("its content does not have the digest that was written with it")
    return json.loads(content)
