"""The settings of the JVM that a command needs, before anything that takes long is imported."""

from __future__ import annotations

from cqels_opt.cli.options import RunOptions
from cqels_opt.spark.jvm import DEFAULT_MASTER, JvmSettings

_JOINS_OF_SPARK = ("shuffle-hash", "sort-merge", "broadcast", "spark")


def jvm_settings(master: str | None, debug: bool) -> JvmSettings:
    """The settings of a command that reads and writes files only."""
    return JvmSettings(master or DEFAULT_MASTER, quiet=not debug)


def jvm_settings_of_run(options: RunOptions) -> JvmSettings:
    """The settings of a run, with the connector if it reads or writes topics of Kafka."""
    packages = options.packages
    if packages is None and (options.topics or options.out_topic is not None):
        from cqels_opt.spark.kafka import CONNECTOR  # its version is that of pyspark

        packages = CONNECTOR
    works = bool(options.topics) or options.plan == "spark" or options.joins in _JOINS_OF_SPARK
    packages = None if packages == "none" else packages
    return JvmSettings(options.master or DEFAULT_MASTER, packages, works, not options.debug, options.conf)
