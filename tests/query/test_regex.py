"""REGEX and REPLACE: linear time, a step limit for backtracking, and the same matches as Python's engine."""

from __future__ import annotations

import random
import re

import pytest

from cqels_opt.query import backtracking
from cqels_opt.query.backtracking import BoundedPattern
from cqels_opt.query.numeric import ExpressionError
from cqels_opt.query.regex import LinearPattern, _Translator, compile_pattern, replace
from cqels_opt.query.strings import regex

EVIL = ["(a+)+$", "^(a|a)*$", "(a|aa)+$", "(.*)*b$", "^(a?){50}a{50}$", "(x+x+)+y"]


@pytest.mark.parametrize("pattern", EVIL)
def test_nested_repetitions_take_linear_time(pattern: str) -> None:
    """With backtracking, 28 letters took half a minute, and 40 did not finish."""
    text = ("x" if "x" in pattern else "a") * 40
    assert isinstance(compile_pattern(pattern, ""), LinearPattern)
    assert not regex(f'"{text}c"', f'"{pattern}"')
    assert replace(f"{text}c", f"{pattern}!", "-", "") == f"{text}c"


@pytest.mark.parametrize("pattern", [r"(a+)+\1$", r"(a|b|ab)*\1c", r"(.*)(.*)(.*)(.*)(.*)\5z"])
def test_a_reference_to_a_group_fails_where_it_takes_too_many_steps(pattern: str) -> None:
    assert isinstance(compile_pattern(pattern, ""), BoundedPattern)
    with pytest.raises(ExpressionError, match="takes more than 500,000 steps"):
        regex(f'"{"ab" * 20}{"a" * 400}!"', f'"{pattern.replace(chr(92), chr(92) * 2)}"')
    with pytest.raises(ExpressionError, match="takes more than 500,000 steps"):
        replace("ab" * 20 + "a" * 400 + "!", "x" + pattern + "|" + pattern, "-", "")


def test_counts_are_bounded() -> None:
    with pytest.raises(ExpressionError, match="too large"):
        compile_pattern(r"(a)\1{1,1000}((b{100}){100}){100}", "")
    assert compile_pattern("^a{1500}$", "").search("a" * 1500)
    assert not compile_pattern("^a{1500}$", "").search("a" * 1499)


@pytest.mark.parametrize(
    ("pattern", "flags", "matching", "other"),
    [
        (r"^(.)(.)\2\1$", "", "abba", "abab"),
        (r"(ab)\1", "i", "abAB", "abac"),
        (r"(a)\11", "", "aa1", "aa"),
        (r"(a)|\1b", "", "a", "b"),
        (r"\bno\b", "", "a no b", "nod"),
        (r"^\w+$", "", "Émile_1²", "a-b"),
        (r"^\d+$", "", "1٣", "²"),
        (r"^[^\W\d]+$", "", "éa", "a1"),
        (r"^[\s\S]$", "", "\n", "ab"),
        (r"^\s$", "", "\u00a0", "x"),
        (r"^[a-z-[b-y]]$", "i", "Z", "B"),
        (r"^[^a-[b]]$", "i", "c", "B"),
        (r"^[^a]$", "i", "b", "A"),
        ("b$", "m", "ab\nc", "abc"),
        ("é+", "i", "É", "e"),
        ("hello world", "x", "helloworld", "hello world"),
        ("hello[ ]world", "x", "hello world", "helloworld"),
        (r"hello\ sworld", "x", "hello world", "hello sworld"),
        (r"a \[ b [^ c-[ d]] \\ $", "x", "a[bx\\", "a[b \\"),
        ("^ [] ] a * $", "x", "]aa", "] a"),
    ],
)
def test_what_patterns_mean(pattern: str, flags: str, matching: str, other: str) -> None:
    assert compile_pattern(pattern, flags).search(matching)
    assert not compile_pattern(pattern, flags).search(other)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        *((pattern, "two quantifiers, one behind the other") for pattern in ("a++", "a*{2}", "a{2}{3}")),
        ("a{,3}", "a quantifier begins with a number"),
        (r"a\0", r"unknown escape \0"),
        *((pattern, "only (?: may follow an opening bracket") for pattern in ("(?=a)", "(?P<n>a)")),
        (r"\1(a)", "invalid group reference 1"),
        ("[a", "the regular expression ends too early"),
        ("a)", "unbalanced parenthesis"),
        ("(*a)", "nothing to repeat"),
    ],
)
def test_what_is_no_pattern(pattern: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=re.escape(message)):
        compile_pattern(pattern, "")


def random_pattern(rng: random.Random, depth: int = 3) -> str:
    if depth == 0:
        return rng.choice(
            ["a", "b", "c", ".", "[ab]", "[^a]", "[a-c-[b]]", r"\w", r"\s", r"[^\d\s]", "é", r"\n", "^", "$", r"\p{Lu}"]
        )
    kind = rng.randrange(6)
    inner = random_pattern(rng, depth - 1)
    if kind == 0:
        return f"({inner})"
    if kind == 1:
        return f"(?:{inner}|{random_pattern(rng, depth - 1)})"
    if kind == 2:
        return f"(?:{inner}){rng.choice(['*', '+', '?', '*?', '+?', '??', '{2}', '{1,2}', '{1,}?'])}"
    return inner + random_pattern(rng, depth - 1)


@pytest.mark.long
def test_the_engines_agree() -> None:
    """Matches and groups with and without RE2, over random patterns and texts."""
    rng, seen = random.Random(17), 0
    for _ in range(1500):
        pattern, flags = random_pattern(rng), "".join(rng.sample("ims", rng.randrange(3)))
        options = re.NOFLAG
        for flag in flags:
            options |= {"i": re.I, "m": re.M, "s": re.S}[flag]
        tokens = [token.python for token in _Translator(pattern, flags).tokens()]
        known, bounded, linear = (
            re.compile("".join(tokens), options),
            BoundedPattern(tokens, options),
            compile_pattern(pattern, flags),
        )
        assert isinstance(linear, LinearPattern), pattern
        for _ in range(8):
            text = "".join(rng.choices("aabbccABéÉ1 \n", k=rng.randrange(8)))
            wanted = known.search(text)
            for engine in (bounded, linear):
                found = engine.search(text)
                assert (found is None) == (wanted is None), (pattern, flags, text)
                if found is not None and wanted is not None:
                    assert found[0] == wanted[0], (pattern, flags, text)
                    seen += 1
    assert seen > 3000


def test_replacing_is_the_same_on_both_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [("abcabc", "(b)(c)?", "<$2$1>", ""), ("aéaé", "É", "[$0]", "i"), ("a1b22", r"\d+", "", ""), ("x.y", ".", "$1", "q")]
    linear = [replace(*case) for case in cases]
    assert linear == ["a<cb>a<cb>", "a[é]a[é]", "ab", "x$1y"]
    monkeypatch.setattr("cqels_opt.query.regex._linear", lambda tokens, options: None)
    compile_pattern.cache_clear()
    assert [replace(*case) for case in cases] == linear
    assert replace("aabba", r"(.)\1", "<$1>", "") == "<a><b>a"
    compile_pattern.cache_clear()


def test_the_limit_is_one_of_steps_and_not_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = compile_pattern(r"^(a*)\1b", "")
    assert pattern.search("aab")
    monkeypatch.setattr(backtracking, "STEPS", 5)
    with pytest.raises(ExpressionError, match="takes more than 5 steps"):
        pattern.search("aab")
