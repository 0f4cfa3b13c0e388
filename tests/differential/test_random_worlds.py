"""Random worlds on the real Volcano and in gangplan: what must hold of both.

More of them: scripts/hunt --differential."""

from __future__ import annotations

from itertools import product

import pytest
import yaml

from tests.differential.bed import Bed
from tests.differential.compare import borrowing_before_entitlement, borrowing_before_growth
from tests.differential.generator import random_world
from tests.differential.hunt import FOUND, KINDS
from tests.differential.planned import compile_world
from tests.differential.sampled import Row, features, sampled

ROWS: dict[str, list[Row]] = {
    "random_world": [*product(["check_world"], range(18)), *product(["check_plan"], range(100, 108))],
    "mixed_world": [*product(["check_mixed"], range(6)), *product(["check_bound"], range(100, 104))],
    "gang_minima_world": [*product(["check_mixed"], range(2)), *product(["check_bound"], range(100, 102))],
}
"""What makes the worlds -> what must hold of them, and their seeds; 40 in a deep run."""
MAKERS = {make.__name__: make for make in KINDS}
TRIED = [(kind, *row) for kind, rows in ROWS.items() for row in sampled(MAKERS[kind], rows)]
TRIED += [(row["world"], row["check"], row["seed"]) for row in yaml.safe_load(FOUND.read_text())]
TWICE = "looked at twice: on a busy machine Volcano may act on what its caches have not heard of yet"


@pytest.mark.parametrize(("kind", "name", "seed"), TRIED)
def test_volcano_does_nothing_illegal_and_nothing_better_and_binds_what_is_planned(
    bed: Bed, kind: str, name: str, seed: int
) -> None:
    make = MAKERS[kind]
    check, world = next(check for check in KINDS[make] if check.__name__ == name), make(seed)
    assert (check(bed, world) and check(bed, world)) == [], TWICE


def test_a_sample_has_every_feature_of_all_worlds() -> None:
    for kind, rows in ROWS.items():
        make = MAKERS[kind]
        tried = set[str]().union(*(features(make(seed)) for _, seed in sampled(make, rows)))
        assert tried == set[str]().union(*(features(make(seed)) for _, seed in rows))


@pytest.mark.parametrize("seed", [240, 916, 2719, 2738])
def test_plans_that_lent_what_growth_was_entitled_to(seed: int) -> None:
    """Found by trying more seeds: three evict, in the other one borrowers start in place of a larger one."""
    world = random_world(seed)
    assert borrowing_before_growth(world, compile_world(world)) == []


@pytest.mark.parametrize("seed", [1007, 1187, 1372])
def test_plans_that_were_wrong(seed: int) -> None:
    """Found by trying more seeds: a borrower came before what another queue is entitled to."""
    world = random_world(seed)
    assert borrowing_before_entitlement(world, compile_world(world).running) == []
