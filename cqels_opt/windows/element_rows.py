"""The columns in which elements reach a run, whatever its source: one row per triple."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_FIELDS: Final[dict[str, pa.DataType]] = {
    "stream": pa.int32(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "s": pa.string(),
    "p": pa.string(),
    "o": pa.string(),
    "g": pa.string(),
    "t": pa.int64(),
    "late": pa.bool_(),
    "line": pa.int64(),
}
ELEMENT_ROWS: Final = pa.schema(_FIELDS)
"""``stream`` is a place among the streams of the run or replay, ``offset`` numbers the elements of a partition, ``t`` has milliseconds."""
