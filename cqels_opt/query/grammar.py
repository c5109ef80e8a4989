"""The grammar of a dialect: SPARQL 1.1 extended by the dialect's rules, as one LALR parser.

Its tables take a quarter of a second to make, so they are kept in the user's cache folder. Lark makes them again if the file is absent,
damaged, or of another grammar, Lark or Python; if the folder is not writable, each process makes them. Python compiles the expressions of
the terminals in each process, and those that name all letters of Unicode take two thirds of that time. So a text in ASCII has a grammar
without the other letters.
"""

from __future__ import annotations

import hashlib
import re
import sys
from contextlib import suppress
from functools import cache
from importlib import resources
from importlib.metadata import version
from typing import Final, Literal

from lark import Lark
from lark.lexer import PatternRE, PatternStr, TerminalDef

from cqels_opt.storage.cache_folder import cache_folder

_TERMINALS = 1
"""To be increased with each change of :func:`_as_word`, whose effect Lark does not see when it compares a file with the grammar."""

_ASCII: Final = {"PN_BASE": "[A-Za-z]", "PN_WORD": "[A-Za-z0-9_]"}
"""The characters of names in a text in ASCII."""


@cache
def load(addition: str, is_ascii: bool = False) -> Lark:
    """The parser for SPARQL 1.1 extended by a dialect's grammar text; cached. ``is_ascii``: for texts in ASCII, which it reads alike."""
    text = resources.files("cqels_opt.query").joinpath("sparql.lark").read_text(encoding="utf-8")
    for name, characters in _ASCII.items() if is_ascii else ():
        text, replaced = re.subn(rf"^{name}: .*$", f"{name}: /{characters}/", text, flags=re.MULTILINE)
        assert replaced == 1, name
    whole = f"{text}\n{addition}"
    return Lark(
        whole,
        parser="lalr",
        lexer="contextual",
        propagate_positions=True,
        maybe_placeholders=False,
        edit_terminals=_as_word,
        cache=_tables(whole),
    )


def _tables(grammar: str) -> str | Literal[False]:
    """The file of a grammar's tables, or False if there is no place for it."""
    with suppress(OSError, RuntimeError):  # no home folder, or no permission
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        made_by = (
            f"{_TERMINALS} {version('lark')} {sys.implementation.cache_tag}"  # so that versions do not replace each other's file
        )
        key = hashlib.sha256(f"{made_by}\n{grammar}".encode()).hexdigest()[:16]
        return str(folder / f"grammar-{key}.tables")
    return False


def _as_word(terminal: TerminalDef) -> None:
    # Lark also matches the keyword IN at the beginning of the word INSIDE; a keyword must be a whole word.
    if isinstance(terminal.pattern, PatternStr) and terminal.pattern.value.isalpha():
        terminal.pattern = PatternRE(f"{terminal.pattern.value}(?![A-Za-z0-9_])", terminal.pattern.flags)
