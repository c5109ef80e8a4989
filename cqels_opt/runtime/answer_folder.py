"""Answers as a folder of Parquet files, one folder per micro-batch, which readers may open at any time.

``batch=00000012/part-00000.parquet``: tasks write the files, and the driver renames the batch's folder into place when all of it is
on the disk. So a batch exists completely or not at all, and a batch that runs again finds its earlier output: exactly once (DESIGN
§4.7).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import xor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from cqels_opt.errors import CheckpointError, InputError
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.runtime.evaluate_task import FinishReport, Format
from cqels_opt.runtime.output_owner import Owner, claim_folder
from cqels_opt.storage import checksum, disk

_PREFIX = "batch="
_BATCH = re.compile(rf"{_PREFIX}\d{{8,}}")


def batch_folder(batch: int) -> str:
    """The name of a batch's folder, which readers take for a partition column."""
    return f"{_PREFIX}{batch:08d}"


class FolderSink:
    """A folder of batches; with several queries a folder ``query=ID`` each (queries that share a program share one).

    Incomplete output is next to the folder, under a name that starts with a dot, so that no pattern of a reader matches it.
    """

    format: Format = "parquet"

    def __init__(self, path: Path, programs: Callable[[], Sequence[CompiledProgram]] | None = None) -> None:
        """``programs`` returns the programs, if there are several."""
        self.path, self._programs = path, programs
        self._writing = path.parent / f".{path.name}.writing"
        self._digest = 0

    def claim(self, owner: Owner, lengths: Mapping[str, int]) -> None:
        """Takes the folder for a run. InputError if it has batches of another run, or batches that no run has written."""
        disk.make_folder(self.path)
        batch = next((batch.relative_to(self.path) for batch in self._batches()), None)
        self._held = claim_folder(self.path, owner, _next(lengths), f"it has {batch}" if batch else "")

    @property
    def digests(self) -> Mapping[str, str]:
        """The digest of all published batches, in any order."""
        return {"batches": f"{self._digest:032x}"}

    def restore(self, lengths: Mapping[str, int], digests: Mapping[str, str]) -> None:
        """Removes the output of an uncommitted batch: everything after the next batch, which is compared when it is written again.

        CheckpointError if the batches before it do not have their committed digest.
        """
        disk.make_folder(self.path)
        if self.path.stat().st_dev != self.path.parent.stat().st_dev:
            raise InputError(
                f"{self.path}: batches are renamed into this folder, so it cannot be a mount point: name one below it"
            )
        disk.delete_folder(self._writing)
        for batch in self._batches():
            if int(batch.name.removeprefix(_PREFIX)) > _next(lengths):
                self._away(batch)
        self._digest = self.digest_before(_next(lengths))
        if _next(lengths) and self.digests["batches"] != digests.get("batches"):
            raise CheckpointError(
                f"{self.path}: its batches before {batch_folder(_next(lengths))} are not those that the checkpoint has committed; "
                "bring the folder back, or use another folder and another checkpoint"
            )

    def digest_before(self, batch: int) -> int:
        """The digest of the batches before one: that of each, added without carry."""
        some = [found for found in self._batches() if int(found.name.removeprefix(_PREFIX)) < batch]
        return reduce(xor, (self._digest_of(folder) for folder in some), 0)

    def _digest_of(self, folder: Path) -> int:
        """Of the files of a batch, with their names."""
        return self._digest_of_parts(folder, {part.name: checksum.file_digest(part) for part in folder.glob("*.parquet")})

    def _digest_of_parts(self, folder: Path, digests: Mapping[str, str]) -> int:
        parts = [f"{name} {digest}" for name, digest in sorted(digests.items())]
        return int(checksum.digest(f"{folder.relative_to(self.path)} {parts}".encode()), 16)

    def _batches(self) -> list[Path]:
        """The folders of batches, in order of their names."""
        folders = (self.path, *self.path.glob("query=*"))
        return sorted(batch for folder in folders for batch in folder.iterdir() if _BATCH.fullmatch(batch.name))

    def put(self, batch: int, chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> dict[str, int]:
        """Puts the answers of a batch in place, on the disk before they can be seen."""
        files: defaultdict[str, list[Path]] = defaultdict(list)
        for program, report in chunks:
            files["" if self._programs is None else program.id].append(folder / report.path)
        for query in [""] if self._programs is None else [program.id for program in self._programs()]:
            place = self.path / f"query={query}" if query else self.path
            disk.make_folder(place)
            target = place / batch_folder(batch)
            if query in files:
                self._digest ^= self._place(files[query], target)
            elif target.exists():
                self._away(target)
            else:
                continue
            disk.sync(place)
        return {"batches": batch + 1}

    def _place(self, files: Sequence[Path], target: Path) -> int:
        """Puts the files of a batch in place; returns their digest. The tasks have hashed them: this process does not read them."""
        made = self._made(files)
        if target.exists():
            if same_rows(made, target):  # the batch ran before: readers are not disturbed
                disk.delete_folder(made)
                return self._digest_of(target)
            self._away(target)
        disk.rename(made, target)
        return self._digest_of_parts(target, {_part(number): checksum.digest_in_name(file) for number, file in enumerate(files)})

    def _made(self, files: Sequence[Path]) -> Path:
        """A folder with these files under the names that they are to have."""
        made = self._writing / "made"
        disk.delete_folder(made)
        disk.make_folder(made)
        for number, file in enumerate(files):
            disk.link(disk.present(file), made / _part(number))
            disk.sync(made / _part(number))
        disk.sync(made)
        return made

    def _away(self, folder: Path) -> None:
        """A folder disappears at once, and then its files go."""
        gone = self._writing / "gone"
        disk.delete_folder(gone)
        disk.make_folder(gone.parent)
        disk.rename(folder, gone)
        disk.delete_folder(gone)


def _part(number: int) -> str:
    return f"part-{number:05d}.parquet"


def _next(lengths: Mapping[str, int]) -> int:
    return lengths.get("batches", 0)


def same_rows(one: Path, other: Path) -> bool:
    """Whether two folders of Parquet files hold the same bag of rows."""
    first, second = (_counted(folder) for folder in (one, other))
    return bool(first.schema == second.schema) and bool(first.equals(second))


def _counted(folder: Path) -> pa.Table:
    rows = pa.concat_tables(_tables(folder))
    names = rows.column_names
    counted = rows.group_by(names).aggregate([([], "count_all")])
    return counted.sort_by([(name, "ascending") for name in names])


def _tables(folder: Path) -> Iterator[pa.Table]:
    for path in sorted(folder.glob("*.parquet")):
        with disk.opened(path) as file:
            yield pa_parquet.ParquetFile(file).read()
