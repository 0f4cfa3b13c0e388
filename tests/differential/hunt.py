"""The random search for worlds on which gangplan and the real Volcano disagree (`scripts/hunt --differential`).

Such a world becomes a test in tests/differential/found/, to be committed with the repair.
"""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.differential.bed import Bed
from tests.differential.compare import check_plan, check_world
from tests.differential.generator import random_world
from tests.differential.mixed import check_bound, check_mixed
from tests.differential.mixtures import gang_minima_world, mixed_world
from tests.differential.world import World
from tests.hunting.plugin import value_code

Check = Callable[[Bed, World], list[str]]
FOUND_FOLDER = Path(__file__).parent / "found"
KINDS: tuple[tuple[Callable[[int], World], tuple[Check, ...]], ...] = (
    (random_world, (check_world, check_plan)),
    (mixed_world, (check_mixed, check_bound)),
    (gang_minima_world, (check_mixed, check_bound)),
)
"""What makes a world of a seed, and what must hold of it; looked at twice, since on a busy machine Volcano may act on
what its caches have not heard of yet."""
_TEMPLATE = '''\
"""Found by scripts/hunt --differential with seed {seed}: {found}"""

from __future__ import annotations

from tests.differential.bed import Bed
from tests.differential.{module} import {check}
from tests.differential.world import {names}

WORLD = {world}


def test_world_{digest}(bed: Bed) -> None:
    assert {check}(bed, WORLD) == []
'''


def hunt(minutes: float, seed: int | None) -> int:
    """Try worlds of all kinds until the time is over, or those of a seed; the exit code: 1 where they disagree."""
    end, number, failed = time.monotonic() + 60 * minutes, 0, list[int]()
    with Bed() as bed:
        while (seed is None or not number) and time.monotonic() < end:
            at = random.SystemRandom().randrange(10**9) if seed is None else seed
            number += 1
            print(f"world with seed {at}", flush=True)
            for make, checks in KINDS:
                world = make(at)
                for check in checks:
                    if found := check(bed, world) and check(bed, world):
                        failed.append(at)
                        print("\n".join(found))
                        print(f"written to {write_found(at, world, check, found[0])}", flush=True)
    verdict = f"to repeat: scripts/hunt --differential --seed {failed[0]}" if failed else "agreed"
    print(f"{len(KINDS) * number} worlds; {verdict}")
    return 1 if failed else 0


def write_found(seed: int, world: World, check: Check, found: str) -> Path:
    """Write the world as a test."""
    FOUND_FOLDER.mkdir(exist_ok=True)
    code = value_code(world)
    digest = hashlib.sha256(f"{check.__name__} {code}".encode()).hexdigest()[:8]
    names = [name for name in ("JobData", "PartitionData", "QueueData", "TaskData", "World") if f"{name}(" in code]
    file = FOUND_FOLDER / f"test_{digest}.py"
    said = found.replace('"', "'")[:60]
    values = {"seed": seed, "found": said, "names": ", ".join(names), "world": code, "digest": digest}
    module = check.__module__.rpartition(".")[2]
    file.write_text(_TEMPLATE.format(check=check.__name__, module=module, **values))
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", file], check=True)
    return file
