"""When Events are read that name why pods are refused."""

from __future__ import annotations

from unittest.mock import Mock

from reconciler.cluster.client import Client
from reconciler.pods.missing import PodRefusals
from reconciler.timings import TIMINGS
from tests.builders.live import live


def test_events_are_read_later_while_other_jobs_get_their_pods() -> None:
    """A controller serves one after the other, and each look would cost it the server's time."""
    client, clock, times = Mock(spec=Client), Mock(return_value=100.0), TIMINGS.pods
    client.warnings_about.return_value = []
    refusals = PodRefusals(client, clock)
    jobs = [(live("batch/v1", "Job", f"j-{at}", uid=f"u-{at}"), (), clock()) for at in range(30)]
    for at in range(1, 31):
        clock.return_value += 1.0
        refusals.read(jobs[at:])
        if at < times.missing_reported_after - 1:
            assert not client.warnings_about.called
    refusals = PodRefusals(client, clock)
    refusals.read(jobs[:2])
    refusals.read(jobs[:1])
    assert client.warnings_about.call_count == 2
    assert refusals.deadlines(clock()) == [clock() + times.first_refusal_look]
