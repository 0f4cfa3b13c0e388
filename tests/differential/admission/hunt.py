"""Rounds of generated objects on the real API server, until the time is over."""

from __future__ import annotations

import random
import time
from collections import Counter

from tests.controlplane import ControlPlane
from tests.differential.admission import defaults
from tests.differential.admission.generator import cases
from tests.differential.admission.oracle import Oracle, confusion, is_meant

A_ROUND = 500


def hunt(minutes: float, seed: int | None) -> int:
    """Print what check and the server disagree on without admission.md telling it; 1 where there is something.
    seed: of the only round."""
    end, count = time.time() + 60 * minutes, Counter[str]()
    with ControlPlane() as plane:
        oracle = Oracle(plane)
        while time.time() < end:
            chosen = random.SystemRandom().randrange(10**9) if seed is None else seed
            verdicts = [each for each in oracle.verdicts(cases(chosen, A_ROUND)) if not is_meant(each)]
            count += confusion(verdicts)
            for each in verdicts:
                if each.is_miss or each.is_false_alarm:
                    print(f"seed {chosen}: {each}", flush=True)
            found, _ = defaults.disagreements(plane, chosen, A_ROUND)
            count["defaults"] += len(found)
            for text in found:
                print(f"seed {chosen}: {text}", flush=True)
            if seed is not None:
                break
    print(", ".join(f"{number} {what}" for what, number in sorted(count.items())))
    return 1 if any(count[what] for what in ("miss", "false alarm", "defaults")) else 0
