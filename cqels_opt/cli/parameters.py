"""Kinds of parameters for click: values that are checked as they are read, suggestions, and help in groups.

A command makes the dataclass of its options from the parameters that were given. The dataclass has the defaults.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click
from click.core import ParameterSource
from click.exceptions import NoSuchCommand
from click.shell_completion import CompletionItem

from cqels_opt.cli import input_files
from cqels_opt.errors import InputError

PROGRAM = "cqels-opt"
CONFIG = "cqels_opt.config"
"""The key of the configuration file in a context."""


def place_of(param: click.Parameter | None, ctx: click.Context | None) -> str:
    """The place of a value in messages: the option, or the file and the key of a configuration."""
    if param is None or ctx is None:
        return PROGRAM
    if of_config(param, ctx):
        return f"{ctx.meta[CONFIG]}: {key_of(param)}"
    return param.opts[0] if isinstance(param, click.Option) else str(param.metavar).rstrip(".")


def of_config(param: click.Parameter, ctx: click.Context) -> bool:
    """Whether the value of a parameter comes from the configuration file."""
    return ctx.get_parameter_source(param.name or "") is ParameterSource.DEFAULT_MAP


def key_of(param: click.Parameter) -> str:
    """The key of an option in a configuration file: its long name without dashes."""
    return max(param.opts, key=len).lstrip("-")


class Value(click.ParamType[Any]):
    """A value that a function reads; its InputError becomes the error of the parameter."""

    def __init__(self, parse: Callable[[str], Any]) -> None:
        self.name, self._parse = "value", parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value of a text."""
        try:
            return self._parse(value)
        except InputError as error:
            self.fail(str(error), param, ctx)


class OneOf(click.ParamType[str]):
    """One of several words, which are not known before they are needed: installed packages add some."""

    name = "choice"

    def __init__(self, *words: str | Callable[[], Sequence[str]]) -> None:
        self._words = words

    @property
    def words(self) -> list[str]:
        """All words."""
        return [word for some in self._words for word in ([some] if isinstance(some, str) else some())]

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """The words, as the help shows them."""
        return "|".join(self.words)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word, or an error with the nearest word."""
        if value in self.words:
            return str(value)
        self.fail(f"there is no {value!r}{suggestion(value, self.words) or ';'} choose from {', '.join(self.words)}", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The words that begin so."""
        return [CompletionItem(word) for word in self.words if word.startswith(incomplete)]


class Place(click.ParamType[Any]):
    """A file, folder or store. Paths of a configuration file are relative to its folder."""

    name = "path"

    def __init__(self, check: Callable[[str, str], Any], what: str | None = None) -> None:
        self._check, self._what = check, what

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The checked path."""
        return self._check(beside_config(value, param, ctx), self._what or place_of(param, ctx))

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The shell completes files."""
        return [CompletionItem(incomplete, type="file")]


class IriAndPlace(Place):
    """The two values of ``--stream IRI PATH``, which :func:`named` reads together."""

    def __init__(self) -> None:
        super().__init__(lambda text, _: text)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text."""
        return value


def beside_config(text: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
    """A path as the program opens it; that of a configuration file is relative to the file's folder."""
    if param is None or ctx is None or not of_config(param, ctx) or "://" in text or text in ("-", ""):
        return text
    slash = "/" if text.endswith("/") else ""
    return f"{Path(ctx.meta[CONFIG]).parent / text}{slash}"


def named(parse: Callable[[str], str], other: str | None = None) -> Callable[..., Any]:
    """A callback for pairs of IRI and path. Places that begin with ``other`` are not paths, and remain as they are."""

    def callback(ctx: click.Context, param: click.Parameter, pairs: Sequence[tuple[str, str]]) -> Any:
        found = []
        for iri, path in pairs:
            name = Value(parse).convert(iri, param, ctx)
            local = other is None or not path.startswith(other)
            place = input_files.existing(beside_config(path, param, ctx), f"{place_of(param, ctx)} {iri}") if local else path
            found.append((name, place))
        return tuple(found)

    return callback


def by_window(ctx: click.Context, param: click.Parameter, pairs: Sequence[tuple[str, Any]]) -> Any:
    """A callback for values by window, each given once."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise click.BadParameter(f"it is given twice for {f'the window {name}' if name else 'all windows'}", ctx, param)
        found[name] = value
    return found


def suggestion(word: str, words: Sequence[str]) -> str:
    """``; did you mean …?`` if a word is similar."""
    near = [other for other in words if other.startswith(word)][:1] or difflib.get_close_matches(word, words, 1)
    return f"; did you mean {near[0]}?" if near else ""


class Option(click.Option):
    """An option, declared as the help shows it: ``--batch N|DUR``, or a flag ``--drain``, in a group of the help."""

    def __init__(
        self, words: str, help: str, type: Any = None, *, name: str | None = None, short: str | None = None, **keywords: Any
    ) -> None:
        option, _, metavar = words.partition(" ")
        flag = True if not metavar and type is None else None
        super().__init__(
            [option, *filter(None, (name, short))], help=help, type=type, metavar=metavar or None, is_flag=flag, **keywords
        )
        self.group = "Options"


def grouped(title: str, *options: Option) -> list[Option]:
    """Options below a title in the help."""
    for option in options:
        option.group = title
    return list(options)


def argument(name: str, metavar: str, help: str, type: Any = None, **keywords: Any) -> click.Argument:
    """A positional argument."""
    several = "..." if keywords.get("nargs") == -1 else ""
    return click.Argument([name], type=type, metavar=f"{metavar}{several}", help=help, **keywords)


class Command(click.Command):
    """A command that returns its options. Parameters that are not given have the defaults of the options."""

    def __init__(self, name: str, make: Callable[..., Any], params: Sequence[click.Parameter], help: str) -> None:
        super().__init__(
            name,
            params=[*params, Option("--debug", "Show the stack trace of an error.")],
            help=f"{help[0].upper()}{help[1:]}.",
            short_help=help,
        )
        self.make = make

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The arguments that are left; click's parser leaves the context out of some errors."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """The options of the command."""
        found = given(ctx)
        if any(param.name == "text" for param in self.params) and not found.keys() & {"query", "text"}:
            raise click.UsageError("QUERY.rq is missing: name a file, - for standard input, or give the text with -e TEXT", ctx)
        return self.make(**found)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options in their groups."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)) is not None:
                groups.setdefault(getattr(param, "group", "Options"), []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)


class Commands(click.Group):
    """Commands in the order of their names in ``makers``. Each is made when it is needed."""

    def __init__(self, makers: Mapping[str, Callable[[], Command]], **keywords: Any) -> None:
        super().__init__(**keywords)
        self._makers = makers

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names."""
        return list(self._makers)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command by its name."""
        return self._makers[cmd_name]() if cmd_name in self._makers else None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first word, or an error with the nearest name."""
        if args[0] not in self._makers:
            raise NoSuchCommand(args[0], possibilities=self._makers, ctx=ctx)
        return super().resolve_command(ctx, args)


def given(ctx: click.Context) -> Mapping[str, Any]:
    """The parameters that were given, on the command line or in the configuration file."""
    absent = (ParameterSource.DEFAULT, None)
    return {name: value for name, value in ctx.params.items() if ctx.get_parameter_source(name) not in absent}


def usage_error(error: click.ClickException) -> NoReturn:
    """Raises an error of click as InputError, in one line."""
    ctx = getattr(error, "ctx", None)
    command = ctx.command_path if ctx is not None else PROGRAM
    message = error.format_message().rstrip(".")
    if isinstance(error, click.NoSuchOption):
        message = f"there is no option {error.option_name!r}{suggestion(error.option_name, _options_of(ctx))}"
    elif isinstance(error, NoSuchCommand):
        near = suggestion(error.command_name, error.possibilities or ())
        message = f"there is no command {error.command_name!r}{near or f'; {PROGRAM} -h lists them'}"
    elif isinstance(error, click.BadOptionUsage):
        written = _written(error.option_name, ctx)
        message = f"{error.option_name}: {f'a value is missing: write {written}' if written else 'it takes no value'}"
    elif isinstance(error, click.MissingParameter):
        kind = error.param.type if isinstance(error.param, click.Option) else None
        choice = f": choose from {', '.join(kind.words)}" if isinstance(kind, OneOf) else ""
        message = f"{place_of(error.param, ctx)} is missing{choice}"
    elif isinstance(error, click.BadParameter):
        place = place_of(error.param, ctx)
        message = f"{place}: {error.message.removeprefix(f'Option {place!r} ')}".rstrip(".")
    message = re.sub(r"Got unexpected extra (arguments?) \((.*)\)", r"unexpected \1 \2", message)
    raise InputError(f"{command}: {message}") from error


def _options_of(ctx: click.Context | None) -> list[str]:
    """The options of a command, in the order of its help."""
    return [name for param in (ctx.command.get_params(ctx) if ctx is not None else ()) for name in param.opts if name[:1] == "-"]


def _written(name: str, ctx: click.Context | None) -> str:
    """An option with its values, as its help shows it; empty for a flag or an unknown option."""
    found = next((one for one in ctx.command.params if name in one.opts), None) if ctx is not None else None
    if ctx is None or not isinstance(found, click.Option) or found.is_flag:
        return ""
    return f"{name} {found.make_metavar(ctx)}"
