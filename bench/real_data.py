"""The location of the real data sets of studies: next to the project, or ``CQELS_OPT_DATA``. They are not part of the project."""

from __future__ import annotations

import os
from pathlib import Path

from cqels_opt.errors import InputError

VARIABLE = "CQELS_OPT_DATA"


def real_data(part: str) -> Path:
    """The folder of one data set, such as ``w3c``; InputError if it does not exist."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get(VARIABLE, beside)) / part
    if not folder.is_dir():
        raise InputError(f"the data set {part} is not there: set {VARIABLE} to the folder that has a folder {part}")
    return folder
