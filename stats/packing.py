"""Trees of JSON values, int64 arrays and bytes as compact bytes, and back: how statistics travel to a checkpoint.

A long array is stored in the smallest unsigned width that its range needs, so counts and times take one or two bytes per value. The
layout: ``MAGIC``, the length of the header (4 bytes), the header (JSON: the tree with ``{"$": i}`` for array i, and width, least
value and length of each array; bytes have the width 0), the arrays. Everything is little-endian.
"""

from __future__ import annotations

import json
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

MAGIC = b"CQS2"
NARROWED = 64
"""Shorter arrays are stored as they are: to find their width takes longer than to write them."""
Tree: TypeAlias = "dict[str, Tree] | list[Tree] | NDArray[np.int64] | bytes | str | int | float | bool | None"


def pack(tree: Tree) -> bytes:
    """The bytes of a tree."""
    arrays: list[NDArray[np.int64] | bytes] = []
    shape = _without_arrays(tree, arrays)
    stored = [_stored(array) for array in arrays]
    header = json.dumps({"tree": shape, "arrays": [layout for layout, _ in stored]}, separators=(",", ":")).encode()
    return b"".join([MAGIC, len(header).to_bytes(4, "little"), header, *(body for _, body in stored)])


def unpack(data: bytes) -> Tree:
    """The tree of :func:`pack`'s bytes; ValueError where they are not such."""
    if data[:4] != MAGIC:
        raise ValueError("these bytes are not packed statistics, or of another version")
    start = 8 + int.from_bytes(data[4:8], "little")
    try:
        header = json.loads(data[8:start])
        arrays: list[NDArray[np.int64] | bytes] = []
        for width, least, length in header["arrays"]:
            if width:
                body = np.frombuffer(data, f"<u{width}", length, start)
                arrays.append(body.astype(np.uint64).view(np.int64) + np.int64(least))
            else:
                arrays.append(data[start : start + length])
            start += max(width, 1) * length
        if start != len(data):
            raise ValueError("of another length than the header says")
        return _with_arrays(header["tree"], arrays)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ValueError(f"packed statistics are damaged: {error}") from error


def _stored(array: NDArray[np.int64] | bytes) -> tuple[list[int], bytes]:
    """Width, least value and length; and the array less its least value, as narrow as it goes."""
    if isinstance(array, bytes):
        return [0, 0, len(array)], array
    array = np.asarray(array, np.int64)
    if len(array) < NARROWED:
        return [8, 0, len(array)], array.astype("<i8", copy=False).tobytes()
    least, most = int(array.min()), int(array.max())
    width = np.min_scalar_type(most - least).newbyteorder("<")
    return [width.itemsize, least, len(array)], (array - np.int64(least)).view(np.uint64).astype(width).tobytes()


def _without_arrays(tree: Tree, arrays: list[NDArray[np.int64] | bytes]) -> Tree:
    if isinstance(tree, np.ndarray | bytes):
        arrays.append(tree)
        return {"$": len(arrays) - 1}
    if isinstance(tree, dict):
        return {name: _without_arrays(branch, arrays) for name, branch in tree.items()}
    if isinstance(tree, list):
        return [_without_arrays(branch, arrays) for branch in tree]
    return tree


def _with_arrays(tree: Tree, arrays: list[NDArray[np.int64] | bytes]) -> Tree:
    if isinstance(tree, dict):
        place = tree.get("$")
        if isinstance(place, int):
            return arrays[place]
        return {name: _with_arrays(branch, arrays) for name, branch in tree.items()}
    if isinstance(tree, list):
        return [_with_arrays(branch, arrays) for branch in tree]
    return tree
