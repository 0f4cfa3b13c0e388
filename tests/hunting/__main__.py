"""Runs the property tests on random examples until the time is over, one seed per round.

A counterexample becomes a file in tests/property/found/, to be committed with the repair. With --differential, random
worlds run on the real Volcano instead, and the seed on which it and gangplan disagree goes to
tests/differential/found.yaml.
With --faults, random schedules of faults hit the reconciler on a control plane; one that fails is repeated by its seed.
With --oracle, plans of random repositories are held against a second exact model; where they disagree the repository,
as small as it gets, goes to tests/oracle/found/. With --admission, generated objects are held against the real API
server with Volcano's webhooks; what differs without being meant is printed with its seed. With --replays, random
workloads run on the real Volcano and in the model of `gangplan simulate --policy volcano`.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from pathlib import Path

from tests.differential import arrivals
from tests.differential import hunt as differential
from tests.differential.admission import hunt as admission
from tests.faults import run as faults
from tests.hunting.plugin import FOUND_FOLDER
from tests.oracle import hunt as oracle

ROOT = Path(__file__).parents[2]
NO_TESTS_LEFT = 5  # pytest's exit code when nothing was collected


def main() -> int:
    """The exit code: 1 when a round failed."""
    parser = argparse.ArgumentParser(prog="scripts/hunt", description=__doc__)
    parser.add_argument("minutes", nargs="?", type=float, default=10.0, help="how long to search (default: 10)")
    parser.add_argument("--seed", type=int, help="repeat the round with this seed, and no other")
    parser.add_argument("--differential", action="store_true", help="worlds on the real Volcano instead of properties")
    parser.add_argument("--faults", action="store_true", help="schedules of faults on the reconciler instead")
    parser.add_argument("--oracle", action="store_true", help="repositories against a second model instead")
    parser.add_argument("--admission", action="store_true", help="objects on the real API server instead")
    parser.add_argument("--replays", action="store_true", help="the model of Volcano against Volcano instead")
    parser.add_argument("--count", type=int, help="with --faults: so many seeds, one after the other")
    parser.add_argument("--workers", default="2", help="processes (default: 2)")
    options, pytest_arguments = parser.parse_known_args()
    if options.differential:
        return differential.hunt(options.minutes, options.seed)
    if options.replays:
        return arrivals.hunt(options.minutes, options.seed)
    if options.faults:
        return faults.hunt(options.minutes, options.seed, options.count or (None if options.seed is None else 1))
    if options.admission:
        return admission.hunt(options.minutes, options.seed)
    if options.oracle:
        return oracle.hunt(options.minutes, options.seed)
    end = time.time() + 60 * options.minutes
    before = found_cases()
    failed_seeds = []
    while time.time() < end:
        seed = random.SystemRandom().randrange(10**9) if options.seed is None else options.seed
        print(f"round with seed {seed}", flush=True)
        code = run_round(seed, end, options.workers, pytest_arguments)
        if code not in (0, NO_TESTS_LEFT):
            failed_seeds.append(seed)
        if options.seed is not None or code not in (0, 1):
            break
    for file in sorted(found_cases() - before):
        print(f"found: {file.relative_to(ROOT)}")
    if failed_seeds:
        print(f"failed; to repeat: scripts/hunt --seed {failed_seeds[0]}")
    else:
        print("no counterexample")
    return 1 if failed_seeds else 0


def run_round(seed: int, end: float, workers: str, arguments: list[str]) -> int:
    """Run every property once, on the examples of one seed; pytest's exit code."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.hunting.plugin", "-n", workers, "--dist", "worksteal"]
    seeded = ["--hypothesis-profile=random", f"--hypothesis-seed={seed}", f"--hunt-until={end}"]
    return subprocess.run([*command, *seeded, *(arguments or ["tests/property"])], cwd=ROOT, check=False).returncode


def found_cases() -> set[Path]:
    return set(FOUND_FOLDER.glob("*.yaml"))


if __name__ == "__main__":
    sys.exit(main())
