"""JSON documents that carry a digest of their content and of their file's name: a changed byte, or a swapped file, is found when a document
is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cqels_opt.storage.checksum import damaged, digest

_HEAD: Final = b'{"digest": "'
_MIDDLE: Final = b'", "content": '
_END: Final = b"}\n"
_SIZE: Final = 32  # hexadecimal digits of a digest


def encode(name: str, value: Any) -> bytes:
    """A value as the document of a file: a JSON object of the digest and the content."""
    content = json.dumps(value, ensure_ascii=False).encode()
    return b"".join([_HEAD, digest(name.encode() + content).encode(), _MIDDLE, content, _END])


def decode(name: str, document: bytes) -> Any:
    """The value of a file's document; ValueError if a byte has changed, or the document was written for another file."""
    start = len(_HEAD) + _SIZE
    head, middle = document[: len(_HEAD)], document[start : start + len(_MIDDLE)]
    if (head, middle, document[-len(_END) :]) != (_HEAD, _MIDDLE, _END):
        raise ValueError("it is no document with a digest, or cut off")
    content = document[start + len(_MIDDLE) : -len(_END)]
    if digest(name.encode() + content).encode() != document[len(_HEAD) : start]:
        raise ValueError("its content does not have the digest that was written with it")
    return json.loads(content)


@contextmanager
def naming_damage(path: Path) -> Iterator[None]:
    """A CheckpointError that names a file of the state, if what it has cannot be read."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(path, str(error)) from error
