"""Whether PySpark is installed, by pip as the extra ``spark`` or by the cluster."""

from __future__ import annotations

from importlib.util import find_spec

from cqels_opt.errors import InputError

PACKAGES = ("pyspark", "py4j")


class NoSparkError(InputError, ImportError):
    """PySpark is not installed, or too old. As an ImportError too, ``try: from cqels_opt import Engine`` can do without it."""


def missing(what: str) -> NoSparkError:
    """The error of something that needs PySpark, or a module that PySpark 3.5 does not have."""
    if all(map(find_spec, PACKAGES)):
        import pyspark

        return NoSparkError(
            f"{what} needs PySpark 4, and PySpark {pyspark.__version__} is installed: with this version, only joins of DataFrames work "
            "(AdaptiveJoin, adaptive, adaptive_sql)"
        )
    return NoSparkError(f"{what} needs PySpark, which is not installed: pip install 'cqels-opt[spark]'")


def is_absent(error: Exception) -> bool:
    """Whether an import failed because there is no PySpark, or one without the module."""
    return isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in PACKAGES


def check_installed(what: str) -> None:
    """Raises a NoSparkError if there is no PySpark."""
    if not all(map(find_spec, PACKAGES)):
        raise missing(what)
