"""Options from a TOML file: ``--config FILE.toml``.

A key is the long name of an option. Tables of ``stream`` and ``graph`` have IRIs as keys, which ``prefixes`` abbreviate; options on the
command line replace those of the file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

import click

from cqels_opt.cli.input_files import existing_file
from cqels_opt.cli.parameters import CONFIG, key_of, suggestion
from cqels_opt.errors import InputError


def read_config(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """The callback of ``--config``: the values of the file become defaults. InputError names the file and the key."""
    if value is None:
        return
    file = existing_file(value, "--config")
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: not TOML: {error}") from error
    prefixes = content.pop("prefixes", {})
    if not isinstance(prefixes, dict) or not all(isinstance(iri, str) for iri in prefixes.values()):
        raise InputError(f'{file}: prefixes: write a table of names and IRIs, such as ex = "http://example.org/"')
    known = {key_of(one): one for one in ctx.command.params if one is not param}
    ctx.meta[CONFIG] = str(file)
    ctx.default_map = {}
    for key, given in content.items():
        if key not in known:
            raise InputError(f"{file}: {key}: there is no option of this name{suggestion(key, list(known))}")
        found = known[key]
        ctx.default_map[str(found.name)] = _value(given, found, prefixes, f"{file}: {key}")


def _value(given: Any, param: click.Parameter, prefixes: Mapping[str, str], place: str) -> Any:
    if param.nargs == 2:
        if not isinstance(given, dict):
            raise InputError(f'{place}: write a table of IRIs and paths, such as "http://example.org/s" = "s.ndjson"')
        return [(_iri(iri, prefixes), path) for iri, paths in given.items() for path in _texts(paths, f"{place}: {iri}")]
    if isinstance(param, click.Option) and param.is_flag:
        if not isinstance(given, bool):
            raise InputError(f"{place}: write true or false, not {given!r}")
        return given
    texts = _texts(given, place)
    if param.multiple or param.nargs == -1:
        return texts
    if len(texts) != 1:
        raise InputError(f"{place}: it takes one value, not {len(texts)}")
    return texts[0]


def _texts(given: Any, place: str) -> list[str]:
    values = given if isinstance(given, list) else [given]
    if not all(isinstance(value, str | int) and not isinstance(value, bool) for value in values):
        raise InputError(f"{place}: write a text, a whole number or a list of these, not {given!r}")
    return [str(value) for value in values]


def _iri(name: str, prefixes: Mapping[str, str]) -> str:
    prefix, colon, local = name.partition(":")
    return prefixes[prefix] + local if colon and prefix in prefixes else name
