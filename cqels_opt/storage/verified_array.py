"""A mapped array of a large file whose blocks are verified when they are first read.

It behaves like a numpy array: ``len``, indexing, ``np.searchsorted``, and all other numpy functions. Indexing, ``take`` and binary
search verify the blocks of the elements that they return; everything else verifies the whole array. Results are plain arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from cqels_opt.storage import checksum
from cqels_opt.storage.checksum import Blocks

_DESCRIPTION: Final = frozenset({"dtype", "shape", "size", "nbytes", "ndim", "itemsize"})


class VerifiedArray(NDArrayOperatorsMixin):
    """A one-dimensional array in the content of a file, from the byte ``start`` on."""

    def __init__(self, array: NDArray[Any], blocks: Blocks, start: int) -> None:
        self._array, self._blocks, self._start = array, blocks, start

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, key: Any) -> Any:
        if self._blocks.pending:
            self._verify(key)
        return self._array[key]

    def take(self, places: NDArray[np.int64]) -> NDArray[Any]:
        """The elements at some places (no mask)."""
        if self._blocks.pending:
            self._verify(places)
        return self._array.take(places)

    def searchsorted(self, values: Any, side: str = "left") -> Any:
        """The positions of values in this sorted array.

        A search over damaged elements could end at a wrong position. So the elements around each position are verified, and the
        value must be between them: the array was sorted when it was written, and has only one such position.
        """
        at = np.searchsorted(self._array, values, cast("Any", side))
        if self._blocks.pending and not self._right(np.atleast_1d(at), np.atleast_1d(values), side):
            self.whole()
            at = np.searchsorted(self._array, values, cast("Any", side))
        return at

    def whole(self) -> NDArray[Any]:
        """The array, all of which is verified."""
        self._blocks.verify_span(self._start, self._start + self._array.nbytes)
        return self._array

    def verify_spans(self, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[Any]:
        """Verifies all from each begin to its end; returns the array, of which no more need be right."""
        some = begins < ends
        begins, ends = begins[some], ends[some]
        if self._blocks.pending and len(begins):
            self._verify(begins)
            self._verify(ends - 1)
            for place in np.flatnonzero(ends - begins > checksum.BLOCK // self._array.itemsize).tolist():
                self._verify(slice(int(begins[place]), int(ends[place])))
        return self._array

    def _right(self, at: NDArray[np.intp], values: NDArray[Any], side: str) -> bool:
        last = len(self._array) - 1
        before, after = at[at > 0] - 1, at[at <= last]
        self._verify(before)
        self._verify(after)
        below, above = (np.less, np.less_equal) if side == "left" else (np.less_equal, np.less)
        return bool(below(self._array[before], values[at > 0]).all() and above(values[at <= last], self._array[after]).all())

    def _verify(self, key: Any) -> None:
        """Verifies the elements that an index returns."""
        size = self._array.itemsize
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self._array))
            low, high = (start, stop) if step > 0 else (stop + 1, start + 1)
            self._blocks.verify_span(self._start + low * size, self._start + max(low, high) * size)
            return
        places = np.atleast_1d(np.asarray(key))
        places = np.flatnonzero(places) if places.dtype == np.bool_ else places.astype(np.int64, copy=False)
        if len(places):
            # an element of 8 bytes may be in two blocks: the content of a file starts at any offset
            first = self._start + np.where(places < 0, places + len(self._array), places) * size
            self._blocks.verify(first.ravel())
            self._blocks.verify(first.ravel() + size - 1)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.whole(), dtype=dtype, copy=bool(copy)) if copy or dtype is not None else self.whole()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        return getattr(ufunc, method)(*_plain(inputs), **keywords)

    def __array_function__(
        self, function: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> Any:
        if function is np.searchsorted and args[0] is self:
            return self.searchsorted(*_plain(args[1:]), **keywords)
        return function(*_plain(args), **{name: _plain(value) for name, value in keywords.items()})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._array if name in _DESCRIPTION else self.whole(), name)


def _plain(value: Any) -> Any:
    """Arrays of this kind as plain ones, also in lists and tuples."""
    if isinstance(value, VerifiedArray):
        return value.whole()
    if isinstance(value, list | tuple):
        return type(value)(_plain(part) for part in value)
    return value


def unverified(array: Any) -> Any:
    """The plain array, of which no more may be read than was verified."""
    return array._array if isinstance(array, VerifiedArray) else array


def array_of(mapped: NDArray[Any], blocks: Blocks | None, start: int) -> NDArray[Any]:
    """A mapped array, without a wrapper if its file has been verified."""
    return mapped if blocks is None else cast("NDArray[Any]", VerifiedArray(mapped, blocks, start))


__all__ = ["VerifiedArray", "array_of", "unverified"]
