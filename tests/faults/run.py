"""`python -m tests.faults.run [--seed N] [--count N] [--minutes M]`: random schedules of faults on a control plane.

Prints a line for each schedule; a failed one is repeated by its seed, alone or after those that ran before it in its
world. `scripts/hunt --faults [MINUTES] [--seed N] [--count N]` is the same.
"""

from __future__ import annotations

import argparse
import itertools
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.controlplane import ControlPlane
from tests.e2e.stories.story import install_rights
from tests.faults.bed import add_nodes
from tests.faults.schedule import Schedule
from tests.faults.shared import SharedWorld

PER_WORLD = 20
"""Schedules that run one after the other on one reconciler and one history; then another world begins."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.run", description=__doc__)
    parser.add_argument("--seed", type=int, help="the first seed (default: a random one)")
    parser.add_argument("--count", type=int, help="how many seeds, one after the other (default: 1 with --seed)")
    parser.add_argument("--minutes", type=float, default=10.0, help="begin no schedule after this time (default: 10)")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # so that the reconciler ends with this
    return hunt(given.minutes, given.seed, given.count or (1 if given.seed is not None else None))


def hunt(minutes: float, seed: int | None, count: int | None) -> int:
    """Run schedules until the time or their number is over; 1 if one failed."""
    end = time.monotonic() + 60 * minutes
    first = random.SystemRandom().randrange(10**9) if seed is None else seed
    failed: list[str] = []
    done = 0
    with ControlPlane() as plane, tempfile.TemporaryDirectory(prefix="gangplan-faults-") as folder:
        install_rights(plane)
        plane.follow_scheduler_configmap("volcano-system", "volcano-scheduler-configmap")
        add_nodes(plane)
        shared = SharedWorld(plane, lambda: Path(tempfile.mkdtemp(dir=folder)))
        begun = first
        for each in itertools.count(first):
            if time.monotonic() > end or done == count:
                break
            if each - begun == PER_WORLD:
                shared.end()
                begun = each
            done += 1
            if not _run_one(shared, each):
                in_world = f"--seed {begun} --count {each - begun + 1}"
                failed.append(f"scripts/hunt --faults --seed {each}, in its world {in_world}")
                begun = each + 1
        shared.end()
    print(f"{done} schedules, {len(failed)} failed", *failed, sep="\n  to repeat: ")
    return 1 if failed else 0


def _run_one(shared: SharedWorld, seed: int) -> bool:
    began = time.monotonic()
    try:
        with shared.use() as world:
            steps = Schedule.from_seed(seed).run(world)
    except Exception:
        print(f"seed {seed}: FAILED after {time.monotonic() - began:.1f} s", flush=True)
        traceback.print_exc()
        return False
    told = ", ".join(f"{step.fault} / {step.action} {seconds:.1f}" for step, seconds in steps)
    print(f"seed {seed}: {time.monotonic() - began:.1f} s: {told}", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
