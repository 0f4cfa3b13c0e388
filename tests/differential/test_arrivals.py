"""The model of Volcano and Volcano itself, with preempt and reclaim, on one random workload.

More of them: scripts/hunt --replays."""

from __future__ import annotations

import pytest

from solver.simulation.volcano.evictions import Evictions
from solver.simulation.volcano.policy import Volcano
from tests.controlplane import ControlPlane
from tests.differential.arrivals import EVICTING, NODES, disagreements, random_arrivals
from tests.differential.replayed import delete_jobs, lay_out, run_jobs

SEED = 7
TRIES = 3
"""On a busy machine the jobs may come at moments at which there is nothing to reclaim."""


def test_the_model_starts_jobs_at_the_cycles_and_on_the_nodes_of_volcano(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = random_arrivals(SEED)
    with ControlPlane() as plane:
        plane.add_nodes(NODES)
        lay_out(plane, EVICTING)
        for _ in range(TRIES):
            found = run_jobs(plane, jobs)
            assert disagreements(found, jobs) == []
            if sum(found.restarts):
                break
            delete_jobs(plane)
    with monkeypatch.context() as patch:
        patch.setattr(Volcano, "_lets_in", lambda *_: True)
        assert disagreements(found, jobs), "a model that lets every job in at once"
    assert sum(found.restarts), "reclaim evicted somebody"
    with monkeypatch.context() as patch:
        patch.setattr(Evictions, "reclaim", lambda *_: None)
        assert disagreements(found, jobs), "a model that reclaims nothing"
