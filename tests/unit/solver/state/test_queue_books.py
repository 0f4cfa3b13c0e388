"""What queues hold, and on whose holdings it depends what one of them may take."""

from __future__ import annotations

from typing import Any

import pytest

from solver.problem import Policy
from solver.state.queue_books import QueueBooks
from tests.builders.problems import nodes, problem, queue


@pytest.mark.parametrize(
    ("top", "a", "b", "related"),
    [
        ({}, {}, {}, [1]),
        ({}, {"capability": {"gpu": 4}}, {}, [1]),
        ({"capability": {"gpu": 12}}, {}, {}, [0, 1, 2]),
        ({}, {}, {"guarantee": {"gpu": 1}}, [0, 1, 2, 3]),
    ],
    ids=["no limit", "its own limit", "a limit above", "a guarantee of another"],
)
def test_a_queue_depends_on_those_whose_holdings_count_against_its_limits(
    top: dict[str, Any], a: dict[str, Any], b: dict[str, Any], related: list[int]
) -> None:
    queues = queue("top", **top), queue("a", parent="top", **a), queue("b", parent="top", **b), queue("other")
    world = problem(nodes(2, gpu=8), *queues, policy=Policy(capacity=True))
    books = QueueBooks(world)
    assert list(books.related_queues(1)) == related
    wanted, before = (9,), books.allows_amount(1, (9,))
    for q in set(range(4)).difference(related):
        books.charge_queue(q, (16,))
    assert books.allows_amount(1, wanted) == before
