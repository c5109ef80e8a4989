"""Turns failures of a file system into one sentence: no space, no permission, a read-only disk.

They arrive as an OSError of this process, as the text of an error in a Python worker, or as an exception of the JVM.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cqels_opt.errors import CqelsOptError, FileError

_ELSEWHERE = "or name another place"
ADVICE: Final = {
    errno.ENOSPC: f"free some space, {_ELSEWHERE}",
    errno.EDQUOT: f"free some space, {_ELSEWHERE}",
    errno.EFBIG: f"raise the limit of a file's size (ulimit -f), {_ELSEWHERE}",
    errno.EROFS: f"make it writable, {_ELSEWHERE}",
    errno.EACCES: f"give this user the right to it, {_ELSEWHERE}",
    errno.EPERM: f"give this user the right to it, {_ELSEWHERE}",
    errno.ENOENT: f"check that nothing else removes files there, {_ELSEWHERE}",
    errno.ENOTDIR: f"remove the file that is where a folder is expected, {_ELSEWHERE}",
    errno.EISDIR: f"remove the folder that is where a file is expected, {_ELSEWHERE}",
    errno.EEXIST: f"remove it, {_ELSEWHERE}",
    errno.EBUSY: f"check which process uses it, {_ELSEWHERE}",
    errno.ELOOP: f"correct the link, {_ELSEWHERE}",
    errno.ENAMETOOLONG: "give it a shorter name",
    errno.EINVAL: f"check that it is a regular file, {_ELSEWHERE}",
    errno.EIO: f"check the disk, {_ELSEWHERE}",
    errno.ESTALE: f"mount it again, {_ELSEWHERE}",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the system's limit of open files",
}
_OF_WRITING: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
ALMOST_NOTHING: Final = 1 << 20
"""Free bytes below which a file system counts as full."""

_REASONS = {os.strerror(number): number for number in ADVICE if number not in (errno.EINVAL, errno.EEXIST)}
_REASON = re.compile("|".join(map(re.escape, _REASONS)))
_BEFORE = re.compile(r"(?:file:)?(/[^:'\"]*?)(?:: | \()$")
_BEHIND = re.compile(r"^: ['\"](.+?)['\"]")
_DENIED = re.compile(r"(?:AccessDeniedException: |Mkdirs failed to create )(?:file:)?(/[^\n]*?)(?: \(|\n|$)")
_CUT_OFF = re.compile(r"\d+ requested and \d+ written|Not enough free space to write \d+ bytes")
"""What numpy says, without an error number, when it cannot write all of an array."""


def bad_name(name: str) -> str:
    """What is wrong with the name of a file, which must be UTF-8, as Spark and the files of a run require; empty if it is right."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return f"{os.fsencode(name)!r}: the name is not UTF-8: rename it"
    return ""


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Adds the path to the error of a failed write, which does not name it, and the error number to that of an array."""
    try:
        yield
    except OSError as error:
        if error.errno is None and _CUT_OFF.search(str(error)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        if error.filename is None and error.errno in ADVICE:
            error.filename = str(path)
        raise


def file_error(error: BaseException, places: Sequence[Path | str] = ()) -> FileError | None:
    """The sentence for an exception caused by a file system, if it was. ``places`` are used if the exception names no path."""
    for cause in _causes(error):
        if isinstance(cause, FileError):
            return cause
        if isinstance(cause, OSError) and cause.errno in ADVICE:
            return _sentence(cause.errno, _path_of(cause), places, cause.strerror)
    for cause in _causes(error):
        if _may_cite(cause) and (found := _in_text(f"{cause}\n{getattr(cause, '_stackTrace', '')}")) is not None:
            return _sentence(*found, places)
    return None


def _may_cite(error: BaseException) -> bool:
    """Whether the text of an exception can be that of a file system: not that of an exception which user code has raised."""
    return isinstance(error, OSError | CqelsOptError) or type(error).__module__.split(".")[0] in ("pyspark", "py4j", "pyarrow")


def _path_of(error: OSError) -> object:
    """The path that an error is about. A copy has two; one that cannot write is about its target."""
    return error.filename2 if error.errno in _OF_WRITING and error.filename2 is not None else error.filename


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, and those that it was raised from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _in_text(text: str) -> tuple[int, str | None] | None:
    """The error number in a text, and the path if the text names it."""
    if (denied := _DENIED.search(text)) is not None:
        return errno.EACCES, denied[1]
    for line in text.splitlines():
        if (reason := _REASON.search(line)) is not None:
            path = _BEHIND.search(line[reason.end() :]) or _BEFORE.search(line[: reason.start()])
            return _REASONS[reason[0]], path[1] if path else None
    return (errno.ENOSPC, None) if _CUT_OFF.search(text) else None


def _sentence(number: int, path: object, places: Iterable[Path | str], reason: str | None = None) -> FileError:
    if path is None and number in (errno.ENOSPC, errno.EDQUOT):
        path = next((place for place in places if _is_full(place)), None)
    if path is None:
        path = " or ".join(map(str, places)) or None
    where = os.fsdecode(path) if isinstance(path, bytes) else path
    return FileError(f"{f'{where}: ' if where is not None else ''}{reason or os.strerror(number)}: {ADVICE[number]}")


def _is_full(place: Path | str) -> bool:
    try:
        found = os.statvfs(place)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < ALMOST_NOTHING
