"""The page on the command line has the options of the commands, and no others."""

from __future__ import annotations

import re

import click
from pages import DOCS

from cqels_opt.cli.grammar import make_commands

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
OF_EVERY_COMMAND = {"--help"}


def options() -> dict[str, set[str]]:
    """The options of each command; those of the program under the empty name."""
    group = make_commands()
    context = click.Context(group)
    commands = {name: group.get_command(context, name) for name in group.list_commands(context)}
    found = {name: own(command) for name, command in commands.items() if command is not None}
    return {"": own(group) | {"--version"}, **found}


def own(command: click.Command) -> set[str]:
    """The long options of a command and of its subcommands."""
    found = {opt for param in command.params for opt in (*param.opts, *param.secondary_opts) if opt.startswith("--")}
    if isinstance(command, click.Group):
        context = click.Context(command)
        found |= {opt for name in command.list_commands(context) for opt in own(command.get_command(context, name) or command)}
    return found


def mentioned() -> set[str]:
    return set(OPTION.findall((DOCS / "cli.md").read_text(encoding="utf-8")))


def test_every_option_is_on_the_page() -> None:
    missing = {f"{command} {option}" for command, known in options().items() for option in known - mentioned()}
    assert sorted(missing) == []


def test_every_option_of_the_page_exists() -> None:
    known = set.union(*options().values()) | OF_EVERY_COMMAND
    assert sorted(mentioned() - known) == []


def test_every_command_is_on_the_page() -> None:
    listed = set(re.findall(r"^cqels-opt ([a-z]+)", (DOCS / "cli.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert listed == {name for name in options() if name}
