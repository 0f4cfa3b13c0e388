"""Plans of random small repositories are as good as the oracle's, whose model and solver are others."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.builders.depth import sample
from tests.oracle.comparison import FOUND_FOLDER, Maker, differences, judged, plan_of
from tests.oracle.crowded import crowded_repository
from tests.oracle.newer import newer_repository
from tests.oracle.richer import richer_repository
from tests.oracle.worlds import random_repository

MAKERS: dict[Maker, range] = {
    random_repository: range(0, 75, 25),
    richer_repository: range(0, 25, 25),
    crowded_repository: range(0, 75, 25),
    newer_repository: range(0, 25, 25),
}
"""What makes the repositories -> the first numbers of their 25s; two hundred in a deep run."""
ALWAYS = ("waits", "entitled", "shares")
SEEN: dict[Maker, tuple[str, ...]] = {
    random_repository: (*ALWAYS, "spread", "supernodes"),
    richer_repository: (*ALWAYS, "spread", "supernodes"),
    crowded_repository: (*ALWAYS, "grows", "priorities first"),
    newer_repository: ("waits", "entitled", "spread"),
}


@pytest.mark.parametrize(("make", "first"), [(make, first) for make, firsts in MAKERS.items() for first in firsts])
def test_plans_are_what_the_oracle_finds(make: Maker, first: int) -> None:
    plans = {seed: plan_of(make(seed)) for seed in range(first, first + sample(25))}
    answers = zip(plans.items(), judged(list(plans.values())), strict=True)
    assert {seed: plan["unproven"] + wrong for (seed, plan), wrong in answers if plan["unproven"] or wrong} == {}
    seen = Counter[str]()
    for plan in plans.values():
        seen["waits"] += len(plan["started"]) < sum(path.startswith("jobs/") for path in plan["files"])
        seen["entitled"] += any(name.startswith("entitled") for name in plan["reached"])
        seen["shares"] += any("share" in name for name in plan["reached"])
        seen["spread"] += plan["reached"].get("spread", 0) > 0
        seen["supernodes"] += "supernodes" in plan["reached"]
        seen["grows"] += bool(plan["grown"])
        seen["priorities first"] += "priorities-first" in plan["files"]["cluster-specs/c/all.yaml"]
    assert min(seen[name] for name in SEEN[make]) >= 1, seen


def test_what_was_once_planned_wrong_is_right() -> None:
    repositories = {
        folder.name: {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.yaml"))}
        for folder in sorted(FOUND_FOLDER.glob("*"))
    }
    answers = zip(repositories, differences(list(repositories.values())), strict=True)
    assert {name: wrong for name, wrong in answers if wrong} == {}


def test_the_oracle_objects_to_a_plan_with_one_job_less_or_another_cost() -> None:
    plans = [plan_of(random_repository(seed)) for seed in range(8)]
    less = [{**plan, "started": plan["started"][1:]} for plan in plans if plan["started"]]
    dearer = [{**plan, "reached": {"spread": 99.0}} for plan in plans]
    assert len(less) >= 5
    assert [wrong for wrong in judged(less) if not wrong] == []
    assert {wrong[0][:7] for wrong in judged(dearer)} == {"spread:"}
