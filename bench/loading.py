"""Loads a user's files: TOML, and Python as a module (a contender, or a data generator)."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

from cqels_opt.errors import InputError


def toml_of(path: Path) -> dict[str, Any]:
    """The content of a TOML file; InputError if it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from error


def module_of(path: Path) -> ModuleType:
    """The module of a file, loaded once; InputError if it does not exist or fails."""
    path = path.resolve()
    name = f"cqels_opt_bench_user.{path.stem}_{abs(hash(str(path))):x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(f"{path}: there is no such Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise InputError(f"{path}: cannot be loaded: {type(error).__name__}: {error}") from error
    return module
