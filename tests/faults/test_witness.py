"""What counts as a wrong eviction."""

from __future__ import annotations

import json

from tests.faults.proxy import Request
from tests.faults.witness import Cause, Witness, wrong_evictions


def wrong(*causes: Cause, at: float = 5.0, pod: str = "a-worker-0", times: int = 1) -> str:
    """What is said of the eviction of one pod; gang "urgent" runs at 9."""
    body = json.dumps({"deleteOptions": {"preconditions": {"uid": "1"}}}).encode()
    path = f"/api/v1/namespaces/default/pods/{pod}/eviction"
    request = Request(at, "POST", path, "", body, {}, upstream=201)
    witness = Witness(None, whole_at={"urgent": 9.0})  # type: ignore[arg-type]
    return "\n".join(wrong_evictions([(pod, request)] * times, causes, {"urgent"}, witness))


def test_an_eviction_has_a_cause_before_its_winner_runs_and_one_for_each_place() -> None:
    winner = Cause(4.0, "urgent")
    assert wrong(winner) == ""
    assert "without a cause" in wrong()
    assert "without a cause" in wrong(winner, at=9.5), "the winner runs"
    assert "evicted 2 times" in wrong(winner, times=2)
    assert wrong(winner, Cause(4.5), times=2) == ""
    assert "nothing is more urgent" in wrong(winner, pod="urgent-worker-0")
    assert wrong(winner, Cause(4.0), pod="urgent-worker-0") == ""
