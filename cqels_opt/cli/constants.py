"""``cqels-opt calibrate``: the constants of the cost model on this machine."""

from __future__ import annotations

from datetime import UTC, datetime

from cqels_opt.cli.options import CalibrateOptions
from cqels_opt.planner import calibration, calibration_store


def calibrate(options: CalibrateOptions) -> str:
    """Measures the constants and stores them; returns them and the file as text."""
    if not options.show:
        found = calibration.measure()
        if options.spark:
            from cqels_opt.cli.commands import constants_of_spark

            found |= constants_of_spark(options)
        calibration_store.keep(found, datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"))
    return f"{calibration_store.known().text()}\n  kept in {calibration_store.cache_file()}"
