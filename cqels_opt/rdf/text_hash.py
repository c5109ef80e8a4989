"""SipHash-2-4 of many texts, as ``pandas.util.hash_array`` computes it, without importing pandas.

pandas takes a fifth of a second to import, in the driver and in each worker. Its compiled hash function needs nothing else of it, so the
one extension module is loaded. A pandas that has moved it is imported as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Hashes: TypeAlias = NDArray[np.uint64]

_MODULE = "pandas._libs.hashing"
# pandas spreads the bits of the hash by the finalizer of SplitMix64.
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))


def hashes(texts: NDArray[np.object_], key: str) -> Hashes:
    """The hash of each text under a key of 16 ASCII characters."""
    return _function()(texts, key)


@cache
def _function() -> Callable[[NDArray[np.object_], str], Hashes]:
    try:
        sip = _extension().hash_object_array
    except (ImportError, AttributeError):
        return _by_pandas
    return lambda texts, key: _mixed(sip(texts, key, "utf8"))


def _extension() -> Any:
    package = find_spec("pandas")
    folders = [str(Path(folder) / "_libs") for folder in (package and package.submodule_search_locations) or ()]
    spec = PathFinder.find_spec(_MODULE, folders)
    if spec is None or spec.loader is None:
        raise ImportError(_MODULE)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _mixed(values: Hashes) -> Hashes:
    for shift, factor in _MIX:
        values ^= values >> np.uint64(shift)
        values *= np.uint64(factor)
    return values


def _by_pandas(texts: NDArray[np.object_], key: str) -> Hashes:
    from pandas.util import hash_array

    return hash_array(texts, hash_key=key, categorize=False)
