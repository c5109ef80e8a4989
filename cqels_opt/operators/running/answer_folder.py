"""Answers as a folder of Parquet files, a folder a micro-batch, which readers may open at any time.

``batch=00000012/part-00000.parquet``: the tasks make the files, and the driver renames the batch's folder into place when all of it is on
the disk. So a batch is there whole or not at all, and one that runs again finds what it put out before: exactly once (DESIGN §4.7).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import xor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from cqels_opt.errors import CheckpointError, InputError
from cqels_opt.lod.files import sync
from cqels_opt.operators.program import Program
from cqels_opt.operators.stages.evaluate import FinishReport, Format
from cqels_opt.storage import checksum

_BATCH = re.compile(r"batch=(\d{8,})")


def batch_folder(batch: int) -> str:
    """The name of a batch's folder, which readers take for a partition column."""
    return f"batch={batch:08d}"


class FolderSink:
    """A folder of batches; of several queries a folder ``query=ID`` each, where queries that share a program have one together.

    What is not whole yet lies beside the folder, under a name that begins with a dot, so that no pattern of a reader can match it.
    """

    format: Format = "parquet"

    def __init__(self, path: Path, programs: Callable[[], Sequence[Program]] | None = None) -> None:
        """``programs`` says which there are, where there are several."""
        self.path, self._programs = path, programs
        self._writing = path.parent / f".{path.name}.writing"
        self._digest = 0

    @property
    def digests(self) -> Mapping[str, str]:
        """Of all batches that were put in place, in whatever order."""
        return {"batches": f"{self._digest:032x}"}

    def restore(self, lengths: Mapping[str, int], digests: Mapping[str, str]) -> None:
        """Takes away what another run left: all behind the batch that comes next. That one is compared when it comes.

        CheckpointError where the batches before it do not have their committed digest.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        if self.path.stat().st_dev != self.path.parent.stat().st_dev:
            raise InputError(
                f"{self.path}: batches are renamed into this folder, so it cannot be a mount point: name one below it"
            )
        shutil.rmtree(self._writing, ignore_errors=True)
        for folder in (self.path, *self.path.glob("query=*")):
            for batch in [p for p in folder.iterdir() if (found := _BATCH.fullmatch(p.name)) and int(found[1]) > _next(lengths)]:
                self._away(batch)
        self._digest = self.digest_before(_next(lengths))
        if _next(lengths) and self.digests["batches"] != digests.get("batches"):
            raise CheckpointError(
                f"{self.path}: its batches before {batch_folder(_next(lengths))} are not those that the checkpoint has put out; "
                "bring the folder back, or use another folder and another checkpoint"
            )

    def digest_before(self, batch: int) -> int:
        """The digest of the batches before one: that of each, added without carry."""
        folders = [found for place in (self.path, *self.path.glob("query=*")) for found in place.iterdir()]
        some = [p for p in folders if (found := _BATCH.fullmatch(p.name)) and int(found[1]) < batch]
        return reduce(xor, (self._digest_of(folder) for folder in some), 0)

    def _digest_of(self, folder: Path) -> int:
        """Of the files of a batch, with their names."""
        files = [f"{part.name} {checksum.file_digest(part)}" for part in sorted(folder.glob("*.parquet"))]
        return int(checksum.digest(f"{folder.relative_to(self.path)} {files}".encode()), 16)

    def put(self, batch: int, chunks: Sequence[tuple[Program, FinishReport]], folder: Path) -> dict[str, int]:
        """Puts the answers of a batch in place, on the disk before they can be seen."""
        for query in [""] if self._programs is None else [program.id for program in self._programs()]:
            place = self.path / f"query={query}" if query else self.path
            place.mkdir(exist_ok=True)
            files = [folder / report.path for program, report in chunks if not query or program.id == query]
            target = place / batch_folder(batch)
            if files:
                self._place(self._made(files), target)
                self._digest ^= self._digest_of(target)
            elif target.exists():
                self._away(target)
            sync(place)
        return {"batches": batch + 1}

    def _made(self, files: Sequence[Path]) -> Path:
        """A folder with these files under the names that they are to have."""
        made = self._writing / "made"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        for number, file in enumerate(files):
            part = made / f"part-{number:05d}.parquet"
            try:
                part.hardlink_to(checksum.verify_name(file))
            except OSError:  # another file system, or one that has no links
                shutil.copyfile(file, part)
            sync(part)
        sync(made)
        return made

    def _place(self, made: Path, target: Path) -> None:
        if target.exists():
            if same_rows(made, target):  # the batch ran before: whoever reads it is not disturbed
                shutil.rmtree(made)
                return
            self._away(target)
        made.rename(target)

    def _away(self, folder: Path) -> None:
        """A folder disappears at once, and then its files go."""
        gone = self._writing / "gone"
        shutil.rmtree(gone, ignore_errors=True)
        gone.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(gone)
        shutil.rmtree(gone)


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
        yield pa_parquet.ParquetFile(path).read()
