"""The state of the optimizer in a file for each commit record: after a restart the planners choose the plans of an undisturbed run.

The statistics of a window are written once, however many blocks read it. The arrays of a slot are written once as well, into the file of
the first batch that has the slot; the files of later batches refer to them. So a batch writes what is new, and its commit record names
all files that it needs. Waiting counts are in files of their own
(:mod:`cqels_opt.state.pending_counts`).

Statistics cannot be counted again exactly from the remaining slots: merged slots fade in proportion to expired rows, and observed
selectivities are stored nowhere else. Plans depend on the files, answers do not: if one is lost, the run continues with statistics
that are counted again (:meth:`Reconfiguration.forget_statistics`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

from cqels_opt.planner.query_planner import QueryPlanner
from cqels_opt.state.pending_counts import LostOptimizerStateError
from cqels_opt.stats import BodyPlace, WindowStatistics, load_window, save_window
from cqels_opt.stats.packing import Tree, pack, unpack
from cqels_opt.storage import sealed_files


def optimizer_file(number: int) -> str:
    """The file of a batch, in the folder of the state."""
    return f"optimizer/{number:08d}.bin"


class _Bodies:
    """The bodies of slots of the statistics, in the files of batches."""

    def __init__(self, folder: Path, number: int = -1, live: Collection[str] = ()) -> None:
        """``number`` is the batch that is being written, and ``live`` are the files that the state before it refers to."""
        self.folder, self.number, self.live = folder, number, live
        self.new, self.used = bytearray(), set[int]()
        self._read: dict[int, bytes] = {}

    def put(self, body: bytes, place: BodyPlace | None) -> BodyPlace:
        """Adds a body to the batch, unless an earlier one has it."""
        if place is None or not self._is_live(place[0]):
            place = (self.number, len(self.new), len(body))
            self.new += body
        self.used.add(place[0])
        return place

    def _is_live(self, number: int) -> bool:
        """Whether the file of an earlier batch can be referred to. An attempt before at the batch that is being written is none."""
        return number != self.number and (number in self.used or optimizer_file(number) in self.live)

    def get(self, place: BodyPlace) -> bytes:
        """A body that a batch has added."""
        number, start, length = place
        if number not in self._read:
            self._read[number] = _content(self.folder / optimizer_file(number))["bodies"]
        return self._read[number][start : start + length]


class _Windows:
    """The windows of a run's blocks, in the order in which they are written."""

    def __init__(self) -> None:
        self.places: dict[WindowStatistics, int] = {}

    def put(self, window: WindowStatistics) -> int:
        """The place of a window; it has one, however many blocks read it."""
        return self.places.setdefault(window, len(self.places))


def write_optimizer_state(
    folder: Path, number: int, live: Collection[str], planners: Mapping[str, QueryPlanner], counted: int
) -> list[str]:
    """Writes statistics, current plans with the alternatives, and the last number that was given to counts.

    ``live`` are the files that the state before refers to. Returns the files of earlier batches that this one refers to.
    """
    plans = {
        program: {name: block.optimizer.state() for name, block in planner.blocks.items()}
        for program, planner in planners.items()
    }
    designs = {program: {name: block.state() for name, block in planner.blocks.items()} for program, planner in planners.items()}
    bodies, windows = _Bodies(folder, number, live), _Windows()
    statistics: dict[str, dict[str, Any]] = {}
    for program, planner in planners.items():
        of_blocks = statistics.setdefault(program, {})
        for name, block in planner.blocks.items():
            places = {occurrence: windows.put(window) for occurrence, window in block.statistics.windows.items()}
            of_blocks[name] = {**block.statistics.state(), "windows": places}
    index = json.dumps({"counted": counted, "plans": plans, "designs": designs, "statistics": statistics}).encode()
    saved = [save_window(window, bodies.put) for window in windows.places]
    content = {"index": index, "windows": saved, "bodies": bytes(bodies.new)}
    sealed_files.write(folder / optimizer_file(number), pack(cast("Tree", content)))
    return [optimizer_file(used) for used in sorted(bodies.used - {number})]


def read_optimizer_state(folder: Path, path: str, planners: Mapping[str, QueryPlanner]) -> int:
    """Restores new planners from a file, and those that it refers to; returns the last number that was given to counts.

    LostOptimizerStateError if that fails: the planners must not be used then.
    """
    content, bodies = _content(folder / path), _Bodies(folder)
    try:
        index = json.loads(content["index"])
        windows: dict[WindowStatistics, None] = {}
        for program, planner in planners.items():
            for name, block in planner.blocks.items():
                state = index["statistics"][program][name]
                for occurrence, window in block.statistics.windows.items():
                    if window not in windows:
                        windows[window] = None
                        load_window(content["windows"][state["windows"][occurrence]], window, bodies.get)
                block.statistics.resume(state)
        for program, planner in planners.items():
            for name, block in planner.blocks.items():
                design = index["designs"][program][name]
                if block.resume(design):
                    block.optimizer.resume(index["plans"][program][name])
        return int(index["counted"])
    except LostOptimizerStateError:
        raise
    except Exception as error:  # any error that a file of another version causes in the readers
        raise LostOptimizerStateError.of(folder / path, error) from error


def _content(path: Path) -> dict[str, Any]:
    try:
        return cast("dict[str, Any]", unpack(bytes(sealed_files.opened_whole(path))))
    except Exception as error:  # any error that a damaged file, or one of another version, causes in the readers
        raise LostOptimizerStateError.of(path, error) from error
