"""When Events are read that name why pods are refused."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from reconciler.cluster.client import Client
from reconciler.pods.refusals import PodRefusals
from reconciler.timings import TIMINGS
from tests.builders.live import live


def test_events_are_read_the_later_the_more_jobs_lack_pods() -> None:
    """A controller serves one after the other: each look would cost it the server's time."""
    client, clock, times = Mock(spec=Client), Mock(return_value=100.0), TIMINGS.pods
    client.warnings_about.return_value = []
    refusals = PodRefusals(client, clock)
    jobs = [(live("batch/v1", "Job", f"j-{at}", uid=f"u-{at}"), (), clock()) for at in range(11)]
    clock.return_value += times.first_refusal_look
    refusals.read(jobs)
    assert not client.warnings_about.called
    (due,) = set(refusals.deadlines(clock()))
    assert due == pytest.approx(clock() + 10 * times.refusal_look_per_job)
    refusals.read(jobs[:1])
    assert client.warnings_about.call_count == 1, "the others have their pods"
