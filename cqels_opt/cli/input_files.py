"""Checks the files, folders and stores that options name: they exist, or can be created. InputError names the option."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from cqels_opt.errors import InputError
from cqels_opt.lod import locations
from cqels_opt.lod.locations import is_uri, local_path, place_of, state_folder
from cqels_opt.storage.file_errors import bad_name


def named(text: str, what: str) -> Path:
    """The path that an option names."""
    if bad := bad_name(text):
        raise InputError(f"{what}: {bad}")
    return local_path(text, what)


def existing(text: str, what: str) -> Path:
    """An existing, readable file or folder."""
    path = named(text, what)
    try:
        path.stat()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{what}: {text}: {reason}") from error
    return path


def existing_file(text: str, what: str) -> Path:
    """An existing file; InputError for a folder."""
    path = existing(text, what)
    if path.is_dir():
        raise InputError(f"{what}: {text}: it is a folder; a file is expected")
    return path


def existing_folder(text: str, what: str) -> Path:
    """An existing folder."""
    path = existing(text, what)
    if not path.is_dir():
        raise InputError(f"{what}: {text}: it is a file; a folder is expected")
    return path


def new_file(text: str, what: str) -> Path:
    """A file to write, in an existing folder."""
    path = named(text, what)
    if path.is_dir():
        raise InputError(f"{what}: {text}: it is a folder; a file is expected")
    if not path.parent.is_dir():
        raise InputError(f"{what}: {text}: there is no folder {path.parent}")
    return path


def new_folder(text: str, what: str) -> Path:
    """A folder that exists or can be created."""
    return locations.new_folder(named(text, what), what)


def _place(text: str, what: str) -> Path | str:
    """A path, or a URI."""
    return place_of(text) if is_uri(text) else named(text, what)


def existing_store(text: str, what: str) -> Path | str:
    """A store: an existing folder, or a URI, which is checked when the store is opened."""
    place = _place(text, what)
    return place if isinstance(place, str) else existing_folder(str(place), what)


def new_store(text: str, what: str) -> Path | str:
    """A location to write a store to: a folder, or a URI."""
    place = _place(text, what)
    return place if isinstance(place, str) else new_folder(str(place), what)


def new_state(text: str, what: str) -> Path | str:
    """The place for the state of a run: a folder, which exists or can be created, or a URI."""
    place = _place(text, what)
    if isinstance(place, str):
        return place
    folder = state_folder(place, what)
    files = [path.name for path in folder.iterdir() if path.is_file() and path.name[0] != "."] if folder.is_dir() else []
    files = [name for name in files if not name.startswith("terms-")]  # which a run writes first: it may have been killed then
    if files and not (folder / "commits").is_dir():  # which each other checkpoint has, a damaged one too
        raise InputError(f"{what}: {text}: it is a folder with other files in it, such as {min(files)}: name another one")
    return named(str(folder), what)


def check_outputs(outputs: Sequence[tuple[str, Path | None]], inputs: Iterable[Path | None]) -> None:
    """InputError for an output, after its option, that is one of the inputs or an output before it."""
    taken = {path.resolve() for path in inputs if path}
    for option, path in outputs:
        if path and path.resolve() in taken:
            raise InputError(f"{option} {path}: the file is given twice, and would be overwritten")
        taken |= {path.resolve()} if path else set()


def check_page(html: Path) -> None:
    """InputError if ``--html`` names no file, or one that exists and is no page: it would be lost."""
    if str(html) == "-":
        raise InputError("--html -: a page is a file: name one")
    if html.is_file():
        with html.open("rb") as file:
            begin = file.read(15)
        if begin and begin.lower() != b"<!doctype html>":
            raise InputError(f"--html {html}: it exists and is not a page: name another file")
