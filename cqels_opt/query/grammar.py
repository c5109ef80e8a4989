"""The grammar of a dialect: SPARQL 1.1 extended by the dialect's rules, as one LALR parser."""

from __future__ import annotations

from functools import cache
from importlib import resources

from lark import Lark
from lark.lexer import PatternRE, PatternStr, TerminalDef


@cache
def load(addition: str) -> Lark:
    """The parser for SPARQL 1.1 extended by a dialect's grammar text; cached."""
    text = resources.files("cqels_opt.query").joinpath("sparql.lark").read_text(encoding="utf-8")
    return Lark(
        f"{text}\n{addition}",
        parser="lalr",
        lexer="contextual",
        propagate_positions=True,
        maybe_placeholders=False,
        edit_terminals=_as_word,
    )


def _as_word(terminal: TerminalDef) -> None:
    # Lark also matches the keyword IN at the beginning of the word INSIDE; a keyword must be a whole word.
    if isinstance(terminal.pattern, PatternStr) and terminal.pattern.value.isalpha():
        terminal.pattern = PatternRE(f"{terminal.pattern.value}(?![A-Za-z0-9_])", terminal.pattern.flags)
