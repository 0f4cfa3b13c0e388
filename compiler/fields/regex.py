"""Regular expressions with Go's promise: the time to match grows with the name, never exponentially.

Volcano matches with Go's RE2. Python's own matcher backtracks and needs hours for `^(([a-z])+.)+x$` on a name of 40
letters, and no inspection of the pattern tells all such apart; so Python's parser reads it, and a set of states walks
over the name (Thompson, CACM 11(6), 1968).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from re import _parser as parser  # type: ignore[attr-defined]  # the one reader of this syntax that the standard library has
from typing import Any

MAX_STATES = 20_000
CharacterTest = Callable[[str], bool]
PositionTest = Callable[[str, str], bool]
"""(character before, character after), "" at the ends of the name -> whether the position holds."""

_FLAGS = re.IGNORECASE | re.UNICODE | re.DOTALL | re.MULTILINE
_REPEATED_GROUP = re.compile(r"\)[*+?{]")


def _is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_"


_POSITION_TESTS: dict[str, PositionTest] = {
    "AT_BEGINNING": lambda before, after: not before,
    "AT_BEGINNING_STRING": lambda before, after: not before,
    "AT_END": lambda before, after: not after,
    "AT_END_STRING": lambda before, after: not after,
    "AT_BOUNDARY": lambda before, after: _is_word_character(before) != _is_word_character(after),
    "AT_NON_BOUNDARY": lambda before, after: _is_word_character(before) == _is_word_character(after),
}


class Regex:
    """`search(name)` as re.search. ValueError for what cannot be compiled, or is no part of Go's syntax."""

    def __init__(self, pattern: str) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", FutureWarning)  # [[:alpha:]] means another thing here than in Go
                parsed = parser.parse(pattern)
        except (re.error, OverflowError, RecursionError, FutureWarning) as problem:
            raise ValueError(str(problem)) from None
        if parsed.state.flags & ~_FLAGS:
            raise ValueError("this flag is no part of Go's syntax")
        self._ignore_case = bool(parsed.state.flags & re.IGNORECASE)
        self._transitions: list[tuple[CharacterTest, int]] = []  # consume a character, go to
        self._epsilon_moves: list[tuple[tuple[int, ...], PositionTest | None]] = []
        self._accept_state = self._add_state()
        self._start_state = self._add_sequence(parsed, self._accept_state)
        # No group is repeated and two things at most are: backtracking is harmless then, and a hundred times faster.
        harmless = not _REPEATED_GROUP.search(pattern) and sum(map(pattern.count, "*+{")) <= 2
        self._backtracking_pattern = re.compile(pattern) if harmless else None

    def search(self, name: str) -> bool:
        if self._backtracking_pattern is not None:
            return self._backtracking_pattern.search(name) is not None
        now: set[int] = set()
        for at in range(len(name) + 1):
            now = self._reachable_states({*now, self._start_state}, name[at - 1 : at] if at else "", name[at : at + 1])
            if self._accept_state in now:
                return True
            if at < len(name):
                now = {self._transitions[state][1] for state in now if self._transitions[state][0](name[at])}
        return False

    def _reachable_states(self, states: set[int], before: str, after: str) -> set[int]:
        found, open_ = set(states), list(states)
        while open_:
            targets, place = self._epsilon_moves[open_.pop()]
            for target in targets if place is None or place(before, after) else ():
                if target not in found:
                    found.add(target)
                    open_.append(target)
        return found

    def _add_state(
        self,
        test: CharacterTest = lambda _: False,
        after: int = 0,
        jumps: tuple[int, ...] = (),
        place: PositionTest | None = None,
    ) -> int:
        if len(self._transitions) >= MAX_STATES:
            raise ValueError("it stands for too many repetitions")
        self._transitions.append((test, after))
        self._epsilon_moves.append((jumps, place))
        return len(self._transitions) - 1

    def _add_sequence(self, items: Any, after: int) -> int:
        for operator, argument in reversed(list(items)):
            after = self._add_item(str(operator), argument, after)
        return after

    def _add_item(self, operator: str, argument: Any, after: int) -> int:
        match operator:
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, items = argument
                return self._add_repeat(least, most, items, after)
            case "SUBPATTERN":
                if argument[1] or argument[2]:
                    raise ValueError("flags inside the pattern are not read; put them at its beginning")
                return self._add_sequence(argument[3], after)
            case "BRANCH":
                return self._add_state(jumps=tuple(self._add_sequence(branch, after) for branch in argument[1]))
            case "AT" if str(argument) in _POSITION_TESTS:
                return self._add_state(jumps=(after,), place=_POSITION_TESTS[str(argument)])
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return self._add_state(self._character_test(operator, argument), after)
        raise ValueError(f"{operator.lower().replace('_', ' ')} is not read here, or no part of Go's syntax")

    def _add_repeat(self, least: int, most: Any, items: Any, after: int) -> int:
        if most == parser.MAXREPEAT:
            loop = self._add_state(jumps=(after,))
            self._epsilon_moves[loop] = ((self._add_sequence(items, loop), after), None)
            after = loop
        else:
            end = after
            for _ in range(most - least):
                after = self._add_state(jumps=(self._add_sequence(items, after), end))
        for _ in range(least):
            after = self._add_sequence(items, after)
        return after

    def _character_test(self, operator: str, argument: Any) -> CharacterTest:
        """By the standard library itself, one character at a time."""
        single = parser.SubPattern(parser.State(), [(getattr(parser, operator), argument)])
        single.state.str = ""
        compiled = re._compiler.compile(single, re.IGNORECASE if self._ignore_case else 0)  # type: ignore[attr-defined]  # beside the parser
        known: dict[str, bool] = {}

        def test(character: str) -> bool:
            if character not in known:
                known[character] = compiled.match(character) is not None
            return known[character]

        return test
