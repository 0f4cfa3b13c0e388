"""Smallest sufficient sets and prefixes."""

from __future__ import annotations

import pytest

from solver.diagnosis.minimal import minimal_subset, shortest_prefix, smallest_sufficient


@pytest.mark.parametrize("items", range(9))
def test_the_shortest_prefix_that_suffices_is_found_with_few_questions(items: int) -> None:
    for least in range(1, items + 2):
        asked: list[int] = []

        def suffices(some: tuple[int, ...], least: int = least, asked: list[int] = asked) -> bool:
            asked.append(len(some))
            return len(some) >= least

        found = shortest_prefix(range(items), suffices)
        assert found == (tuple(range(least)) if least <= items else None)
        assert len(asked) <= 1 + 2 * least.bit_length()


def test_the_smallest_set_prefers_one_then_two_then_what_cannot_be_spared() -> None:
    asked: list[str] = []

    def suffices(some: tuple[str, ...]) -> bool:
        asked.append("".join(some))
        return {"b", "c"} <= set(some) or "d" in some

    assert smallest_sufficient("abc", suffices, 6) == ("b", "c")
    assert smallest_sufficient("abcd", suffices, 6) == ("d",)
    assert smallest_sufficient("ab", suffices, 6) is None
    assert minimal_subset(tuple("abc"), suffices) == ("b", "c")
    assert "a" in asked
