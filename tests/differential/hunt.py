"""The random search for worlds on which gangplan and the real Volcano disagree (`scripts/hunt --differential`).

The seed of such a world goes to tests/differential/found.yaml, to be committed with the repair.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.differential.alone import check_never
from tests.differential.bed import Bed
from tests.differential.compare import check_plan, check_world
from tests.differential.edges import any_edge_world
from tests.differential.generator import random_world
from tests.differential.mixed import check_bound, check_mixed
from tests.differential.mixtures import gang_minima_world, mixed_world

Check = Callable[[Bed, Any], list[str]]
FOUND = Path(__file__).parent / "found.yaml"
"""Rows of world, check, seed and what was found, which `test_random_worlds` tries again."""
KINDS: dict[Callable[[int], Any], tuple[Check, ...]] = {
    random_world: (check_world, check_plan),
    mixed_world: (check_mixed, check_bound),
    gang_minima_world: (check_mixed, check_bound),
    any_edge_world: (check_never,),
}
"""What makes a world of a seed, and what must hold of it; looked at twice, since on a busy machine Volcano may act on
what its caches have not heard of yet."""


def hunt(minutes: float, seed: int | None) -> int:
    """Try worlds of all kinds until the time is over, or those of a seed; the exit code: 1 where they disagree."""
    end, number, failed = time.monotonic() + 60 * minutes, 0, list[int]()
    with Bed() as bed:
        while (seed is None or not number) and time.monotonic() < end:
            at = random.SystemRandom().randrange(10**9) if seed is None else seed
            number += 1
            print(f"world with seed {at}", flush=True)
            for make, checks in KINDS.items():
                world = make(at)
                for check in checks:
                    if found := check(bed, world) and check(bed, world):
                        failed.append(at)
                        print("\n".join(found))
                        write_found(make.__name__, check.__name__, at, found[0])
    verdict = f"to repeat: scripts/hunt --differential --seed {failed[0]}" if failed else "agreed"
    print(f"{len(KINDS) * number} worlds; {verdict}")
    return 1 if failed else 0


def write_found(world: str, check: str, seed: int, found: str) -> None:
    """Add a row to those that every run tries again."""
    row = {"world": world, "check": check, "seed": seed, "found": found}
    with FOUND.open("a") as file:
        file.write(yaml.safe_dump([row], sort_keys=False, width=118))
