"""What counts as a wrong eviction."""

from __future__ import annotations

import json

from tests.faults.proxy import Request
from tests.faults.witness import Cause, Witness, wrong_evictions


def eviction(at: float, pod: str) -> tuple[str, Request]:
    body = json.dumps({"deleteOptions": {"preconditions": {"uid": "1"}}}).encode()
    return pod, Request(at, "POST", f"/api/v1/namespaces/default/pods/{pod}/eviction", "", body, {}, upstream=201)


def wrong(*causes: Cause, at: float = 5.0, pod: str = "a-worker-0", times: int = 1) -> str:
    """What is said of the eviction of one pod; gang "owner" runs at 9."""
    return told([eviction(at, pod)] * times, *causes)


def told(evictions: list[tuple[str, Request]], *causes: Cause) -> str:
    witness = Witness(None, whole_at={"urgent": 1.0, "owner": 9.0})  # type: ignore[arg-type]
    return "\n".join(wrong_evictions(evictions, causes, {"urgent", "owner"}, witness))


def test_an_eviction_has_a_cause_before_its_winner_runs_and_one_for_each_place() -> None:
    winner = Cause(4.0, "owner")
    assert wrong(winner) == ""
    assert "without a cause" in wrong()
    assert "without a cause" in wrong(winner, at=9.5), "the winner runs"
    assert "evicted 2 times" in wrong(winner, times=2)
    assert wrong(winner, Cause(4.5), times=2) == ""
    assert "nothing is more urgent" in wrong(winner, pod="urgent-worker-0")
    assert wrong(winner, Cause(4.0), pod="urgent-worker-0") == ""


def test_what_is_urgent_may_come_back_in_its_queue_when_it_gave_back_what_was_borrowed() -> None:
    """Its own first run at 1 is no end of that."""
    reclaim, lost, taken = (
        Cause(4.0, "owner", is_reclaim=True),
        eviction(5.0, "urgent-worker-0"),
        eviction(9.5, "a-worker-0"),
    )
    assert told([lost, taken], reclaim) == ""
    assert told([taken, lost], reclaim) == "", "in order of time"
    assert "without a cause" in told([taken], reclaim)
    assert "without a cause" in told([eviction(5.0, "b-worker-0"), taken], reclaim), "what is not urgent waits"
