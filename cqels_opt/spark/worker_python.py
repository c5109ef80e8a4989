"""The Python of Spark's workers: on one machine that of the driver; elsewhere one sentence if it lacks what the driver's has."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cqels_opt.errors import CqelsOptError, RunError
from cqels_opt.spark.session import AnySession, on_one_machine, session_of

VARIABLE = "PYSPARK_PYTHON"
_ABSENT = re.compile(r"No module named '?(\w+)")
_OTHER_VERSION = re.compile(r"different version:? *'?([\d.]+)'? than that in driver")


def use_this_python(session: SparkSession) -> None:
    """Lets the workers of a session on this machine run the driver's interpreter, unless ``PYSPARK_PYTHON`` names another.

    PySpark starts the ``python3`` of ``PATH``, which is another one if a virtual environment is used without being activated.
    """
    if on_one_machine(session) and VARIABLE not in os.environ:
        session.sparkContext.pythonExec = sys.executable


@contextmanager
def explained(session: AnySession) -> Iterator[None]:
    """Raises a RunError with one sentence if Spark's workers run a Python that lacks modules of the driver's, or another version."""
    try:
        yield
    except CqelsOptError:
        raise
    except Exception as error:
        if (sentence := reason(str(error))) is None:
            raise
        theirs = _workers_python(session_of(session))
        raise RunError(
            f"Spark's workers run {theirs}, which {sentence}; the driver runs {sys.executable}. Set {VARIABLE} to a Python that has "
            "cqels-opt on every machine, before the session is created"
        ) from error


def reason(failure: str) -> str | None:
    """What is wrong with the workers' Python, from the message of a failed job; None if it is not to blame."""
    if other := _OTHER_VERSION.search(failure):
        return f"is Python {other[1]} and not {sys.version_info.major}.{sys.version_info.minor} as the driver's"
    absent = _ABSENT.search(failure)
    if absent is None or find_spec(absent[1]) is None:
        return None
    return f"has no module {absent[1]}"


def _workers_python(session: SparkSession) -> str:
    """The interpreter of a worker. A function without modules of ours, which the worker may not have, runs in a job of one task."""
    context = session.sparkContext
    try:
        (path,) = context.parallelize([0], 1).map(lambda _: sys.executable).collect()
    except Exception as error:  # a worker without PySpark, or with another version, runs no function
        if not isinstance(error, PySparkException) and "py4j" not in type(error).__module__:
            raise
        return str(context.pythonExec)
    return str(path)
