"""Smallest sufficient sets and prefixes."""

from __future__ import annotations

import pytest

from solver.diagnosis.minimal import shortest_prefix


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
