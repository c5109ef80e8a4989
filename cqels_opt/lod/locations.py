"""The place of a store as a user names it (a folder, or a URI of an object store), and the local folder of fetched files."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from cqels_opt.errors import InputError
from cqels_opt.storage.cache_folder import fetched_folder

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""Also of ``dbfs:/x``, and of ``s3:/x``, which is what ``Path`` makes of ``s3://x``. One letter is a drive."""


def is_uri(place: str | os.PathLike[str]) -> bool:
    """Whether a store is named by a URI; else it is a folder."""
    return isinstance(place, str) and _URI.match(place) is not None


def place_of(text: str) -> Path | str:
    """The place that a user names: a URI of an object store, else a path (also of a ``file://`` URI)."""
    if not is_uri(text):
        return Path(text)
    if not text.lower().startswith("file:"):
        return text
    path = _of_file_uri(text)
    if path is None:
        raise InputError(f"{text}: this names no folder of this machine: write a path, or file:///path")
    return path


def _of_file_uri(uri: str) -> Path | None:
    """The path of ``file:///x`` or ``file:/x``, of which ``#`` and ``?`` are parts. None for another host, and for no absolute path."""
    host, path = "", uri.partition(":")[2]
    if path.startswith("//"):
        host, slash, rest = path[2:].partition("/")
        path = slash + rest
    return Path(unquote(path)) if host in ("", "localhost") and path.startswith("/") else None


def shown(uri: str) -> str:
    """A URI for people: without credentials and options. A path stays as it is."""
    if _SCHEME.match(uri) is None:
        return uri
    parts = urlsplit(uri)
    slashes = "//" if "://" in uri else ""
    return f"{parts.scheme}:{slashes}{parts.netloc.rpartition('@')[2]}{parts.path}"


def cache_folder() -> Path:
    """The folder of fetched stores on this machine: below ``CQELS_OPT_CACHE``, or in the user's cache folder."""
    return fetched_folder() / "stores"


def local_path(place: str | os.PathLike[str], what: str, why: str = "a local file or folder is expected") -> Path:
    """The path of a local file or folder, given as a path or as ``file:///…``. InputError for another scheme, such as ``dbfs:/x``, and for
    an empty text, such as a variable of a shell that is not set.

    ``why`` is the reason in the error message, and ``what`` the parameter that names the place.
    """
    if not isinstance(place, str | os.PathLike):
        raise InputError(f"{what}: {place!r} is no path")
    text = os.fspath(place)
    if not text:
        raise InputError(f"{what}: the name is empty")
    scheme = _SCHEME.match(text)
    if scheme is None:
        return Path(text)
    if scheme[1].lower() == "file" and (path := _of_file_uri(text)) is not None:
        return path
    raise InputError(f"{what}: {shown(text)}: {why}: give a path, if need be of a mounted file system")


def hadoop_uri(place: str | os.PathLike[str] | None) -> str | None:
    """The URI of a folder on a file system of Hadoop, such as ``s3a://bucket/x`` or ``dbfs:/x``; None for a local path or ``file:///…``."""
    scheme = _SCHEME.match(place) if isinstance(place, str) else None
    return str(place) if scheme is not None and scheme[1].lower() != "file" else None


def state_folder(place: str | os.PathLike[str], what: str) -> Path:
    """A folder for the state of a run, whose files are renamed, and mapped by all executors. Checkpoints at URIs have a local copy instead
    (:func:`cqels_opt.state.remote_checkpoint.checkpoint_folder`)."""
    return new_folder(
        local_path(place, what, "the state of a run needs a folder that all executors see, not an object store"), what
    )


def new_folder(folder: Path, what: str) -> Path:
    """This folder, which exists or can be made. InputError where a file has its name, or that of a folder above it."""
    found = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    if found.exists() and not found.is_dir():
        raise InputError(f"{what}: {found}: it is a file; a folder is expected")
    return folder
