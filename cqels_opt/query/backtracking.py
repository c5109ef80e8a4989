"""A backtracking matcher with a step limit, for regular expressions that linear-time engines do not support (back-references).

Backtracking can take exponential time, so a call that exceeds :data:`STEPS` steps is an error. The limit counts steps, not
seconds, so that a row has the same value every time it is computed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from cqels_opt.query.numeric import ExpressionError

STEPS: Final = 500_000
"""The maximum number of steps of one call of REGEX or REPLACE: less than a second."""
INSTRUCTIONS: Final = 20_000
"""The maximum number of instructions of a compiled pattern; ``a{1000}`` compiles to 1,000."""

_QUANTIFIER = re.compile(r"(?:([*+?])|\{(\d+)(?:(,)(\d*))?\})(\??)")
_REFERENCE = re.compile(r"\(\?:\\(\d+)\)")
_BOUNDS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}

One: TypeAlias = "re.Pattern[str]"


@dataclass(frozen=True, slots=True)
class Char:
    """Matches one character, or a position (``^``)."""

    one: One


@dataclass(frozen=True, slots=True)
class Backreference:
    """Matches the text of a group again."""

    group: int
    ignore_case: bool


@dataclass(frozen=True, slots=True)
class Save:
    """Saves the position: the begin or end of a group, or the begin of a loop iteration."""

    slot: int


@dataclass(frozen=True, slots=True)
class EmptyCheck:
    """Leaves a loop whose iteration, since its :class:`Save`, matched the empty string."""

    slot: int


@dataclass(frozen=True, slots=True)
class Split:
    """Continues at ``first``, and on failure at ``second``; both are relative to this instruction."""

    first: int
    second: int


Instruction: TypeAlias = Char | Backreference | Save | EmptyCheck | Split
Code: TypeAlias = list[Instruction]


@dataclass(frozen=True, slots=True)
class BoundedMatch:
    """A match: the texts of its groups."""

    text: str
    saved: tuple[int, ...]

    def __getitem__(self, group: int) -> str | None:
        begin, end = self.saved[2 * group : 2 * group + 2]
        return None if begin < 0 or end < 0 else self.text[begin:end]


class BoundedPattern:
    """A pattern given as tokens of Python's syntax: characters, classes, positions, references, brackets, bars, quantifiers."""

    def __init__(self, tokens: Sequence[str], options: re.RegexFlag) -> None:
        self._tokens, self._at, self._options = tokens, 0, options
        self._ones: dict[str, One] = {}
        self.groups = sum(token == "(" for token in tokens)
        self._open, self._slots = 0, 2 * self.groups + 2
        self._code = self._alternatives()

    def search(self, text: str) -> BoundedMatch | None:
        """The first match."""
        return self._search(text, 0, _Budget())

    def sub(self, expand: Callable[[BoundedMatch], str], text: str) -> str:
        """The text with all matches replaced."""
        parts, at, budget = list[str](), 0, _Budget()
        while at <= len(text) and (match := self._search(text, at, budget)) is not None:
            begin, end = match.saved[:2]
            parts += [text[at:begin], expand(match)]
            if begin == end:
                parts.append(text[end : end + 1])
            at = end + (begin == end)
        return "".join([*parts, text[at:]])

    # ------------------------------------------------------------------ compiling
    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _alternatives(self) -> Code:
        code = self._sequence()
        if self._peek() != "|":
            return code
        self._at += 1
        other = self._alternatives()
        return self._bounded([Split(1, len(code) + 2), *code, Split(len(other) + 1, 0), *other])

    def _sequence(self) -> Code:
        code: Code = []
        while self._peek() not in ("", "|", ")"):
            code += self._quantified(self._piece())
        return self._bounded(code)

    def _piece(self) -> Code:
        token = self._peek()
        self._at += 1
        if token in ("(", "(?:"):
            return self._group(token == "(")
        if reference := _REFERENCE.fullmatch(token):
            return [Backreference(int(reference[1]), bool(self._options & re.IGNORECASE))]
        if token not in self._ones:
            self._ones[token] = re.compile(token, self._options)
        return [Char(self._ones[token])]

    def _group(self, captures: bool) -> Code:
        if captures:
            self._open += 1
            slot = 2 * self._open
            code = [Save(slot), *self._alternatives(), Save(slot + 1)]
        else:
            code = self._alternatives()
        self._at += 1
        return code

    def _quantified(self, piece: Code) -> Code:
        found = _QUANTIFIER.fullmatch(self._peek())
        if found is None:
            return piece
        self._at += 1
        sign, least, comma, most, lazy = found.groups()
        low, high = _BOUNDS[sign] if sign else (int(least), int(most) if most else None if comma else int(least))
        self._bounded(piece * min(low if high is None else high, INSTRUCTIONS + 1))
        code = piece * low
        if high is None:
            slot, self._slots = self._slots, self._slots + 1
            body: Code = [Save(slot), *piece, EmptyCheck(slot)]
            return [*code, _choice(1, len(body) + 2, lazy), *body, Split(-len(body) - 1, 0)]
        for left in range(high - low, 0, -1):
            code += [_choice(1, left * (len(piece) + 1), lazy), *piece]
        return code

    def _bounded(self, code: Code) -> Code:
        if len(code) > INSTRUCTIONS:
            raise ExpressionError(
                f"the regular expression is too large: more than {INSTRUCTIONS:,} characters when its counts are written out"
            )
        return code

    # ------------------------------------------------------------------ matching
    def _search(self, text: str, start: int, budget: _Budget) -> BoundedMatch | None:
        for begin in range(start, len(text) + 1):
            saved = self._match(text, begin, budget)
            if saved is not None:
                return BoundedMatch(text, saved[: 2 * self.groups + 2])
        return None

    def _match(self, text: str, begin: int, budget: _Budget) -> tuple[int, ...] | None:
        code, size = self._code, len(self._code)
        later = [(0, begin, (begin, *[-1] * (self._slots - 1)))]
        while later:
            at, position, saved = later.pop()
            while at < size:
                budget.spend()
                instruction = code[at]
                if isinstance(instruction, Split):
                    if instruction.second:
                        later.append((at + instruction.second, position, saved))
                    at += instruction.first
                    continue
                if isinstance(instruction, Save):
                    slot = instruction.slot
                    saved = (*saved[:slot], position, *saved[slot + 1 :])
                elif isinstance(instruction, EmptyCheck):
                    at += saved[instruction.slot] == position  # skips the jump back
                else:
                    end = _end_of_match(instruction, text, position, saved)
                    if end < 0:
                        break
                    position = end
                at += 1
            else:
                return (begin, position, *saved[2:])
        return None


def _end_of_match(instruction: Char | Backreference, text: str, position: int, saved: tuple[int, ...]) -> int:
    """The position after the match; negative if there is no match."""
    if isinstance(instruction, Char):
        found = instruction.one.match(text, position)
        return -1 if found is None else found.end()
    begin, end = saved[2 * instruction.group : 2 * instruction.group + 2]
    if begin < 0 or end < 0:
        return -1
    wanted, given = text[begin:end], text[position : position + end - begin]
    same = wanted == given or (instruction.ignore_case and wanted.lower() == given.lower())
    return position + end - begin if same else -1


def _choice(first: int, second: int, lazy: str) -> Split:
    return Split(second, first) if lazy else Split(first, second)


class _Budget:
    """The remaining steps of a call."""

    def __init__(self) -> None:
        self.left = STEPS

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise ExpressionError(f"the regular expression takes more than {STEPS:,} steps")
