"""Where the real data sets lie that studies read: beside the project, or where ``CQELS_OPT_DATA`` says. They are no part of the project."""

from __future__ import annotations

import os
from pathlib import Path

from cqels_opt.errors import InputError

VARIABLE = "CQELS_OPT_DATA"


def real_data(part: str) -> Path:
    """The folder of one data set, such as ``w3c``; InputError where it is not there."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get(VARIABLE, beside)) / part
    if not folder.is_dir():
        raise InputError(f"the data set {part} is not there: set {VARIABLE} to the folder that has a folder {part}")
    return folder
