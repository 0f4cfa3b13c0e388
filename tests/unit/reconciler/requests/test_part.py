"""What operators ask for other than by git: suspensions, reruns, and another round of binding."""

from __future__ import annotations

import json
import re

import pytest

from compiler.kubernetes import SUSPEND_ANNOTATION
from reconciler.changes.diff import Change
from reconciler.cluster.client import Retry
from reconciler.cluster.objects import Object, ref_of
from reconciler.requests.part import BY_REQUEST, EVERYTHING, SUSPENDED, Requests, RequestsPart, RequestStore
from reconciler.timings import RequestTimings
from tests.builders.fake_cluster import FakeCluster
from tests.builders.scripted_server import error_answer

JOB: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "default"}}
REF = ref_of(JOB)


class Desk:
    """The part, and the store through which a command asks."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        path = "/api/v1/namespaces/gangplan-system/configmaps/other"
        self.cluster.put(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}})
        self.store = RequestStore(self.cluster.client(), "gangplan-system", "test")
        self.woken: list[Requests] = []
        self.part = RequestsPart(self.store, lambda: self.woken.append(self.part.current()), RequestTimings())

    def ask(self, requests: Requests) -> None:
        self.store.change(lambda _: requests)
        self.part.poll_once()

    def write(self, text: str) -> None:
        """As somebody else does."""
        path = f"/api/v1/namespaces/gangplan-system/configmaps/{self.store.ref.name}"
        metadata = {"name": self.store.ref.name, "namespace": "gangplan-system"}
        data = {"requests.json": text}
        self.cluster.put(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})

    def ask_anew(self, requests: Requests) -> None:
        self.write(requests.as_json())
        self.part.poll_once()


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_requests_survive_their_way_through_the_cluster(desk: Desk) -> None:
    assert desk.store.read() == Requests()
    asked = Requests().with_suspended("Queue").with_rerun(REF.key, "sha256:a", 2).with_retry(REF.key)
    desk.store.change(lambda _: asked)
    desk.store.change(lambda known: known.with_suspended(EVERYTHING))
    assert desk.store.read() == asked.with_suspended(EVERYTHING)
    assert desk.store.read().with_resumed(EVERYTHING).suspended == frozenset()
    for text in ("[]", "{}", '{"version": 2, "suspended": [], "reruns": {}, "retries": {}}'):
        with pytest.raises(ValueError, match="requests"):
            Requests.from_json(text)


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, '{"version": 1, "suspended": [], "reruns": {"a": ["b", "c"]}}']
)
def test_requests_that_somebody_wrote_into_are_named_with_a_way_out(desk: Desk, text: str) -> None:
    """It ended every pass with "Expecting value: line 1 column 1"."""
    desk.write(text)
    with pytest.raises(ValueError, match=r"ConfigMap gangplan-test-requests holds no requests"):
        desk.store.change(lambda known: known)
    assert desk.part.current().suspends(REF), "a suspension may be among them"
    assert re.search(r"holds no requests: .* Fix: correct or delete it; until then all is susp", desk.part.problem)
    desk.ask_anew(Requests())
    assert (desk.part.current(), desk.part.problem) == (Requests(), "")


def test_a_request_that_cannot_be_read_holds_up_only_its_own_job(desk: Desk) -> None:
    reruns = {REF.key: ["sha256:a", "second"], "Job.batch/default/other": ["sha256:b", 2]}
    desk.write(json.dumps({"version": 1, "suspended": ["Queue"], "reruns": reruns, "retries": {"a": None, "b": 1}}))
    found = desk.part.current()
    assert found.suspended == {"Queue", REF.key}
    assert (found.reruns, found.retries) == ({"Job.batch/default/other": ("sha256:b", 2)}, {"b": 1})
    assert desk.part.problem == f"requests that cannot be read: rerun of {REF.key}, retry of a"
    with pytest.raises(ValueError, match=f"rerun of {REF.key}.*Fix: correct ConfigMap gangplan-test-requests"):
        desk.store.change(lambda known: known)


def test_an_error_is_no_resumption_and_what_changes_wakes_the_loop_once(desk: Desk) -> None:
    """Seen once: requests of operators that cannot be read were told nowhere."""
    desk.cluster.before = lambda method, path, body: error_answer(500)
    with pytest.raises(Retry):
        desk.part.current()
    desk.cluster.before = lambda method, path, body: None
    asked = Requests().with_suspended(EVERYTHING)
    desk.ask(asked)
    desk.cluster.before = lambda method, path, body: error_answer(500)
    for _ in range(2):
        desk.part.poll_once()
    assert desk.part.suspended_keys({REF.key: JOB}) == {REF.key}
    assert "500" in desk.part.problem, "it is told, and the last ones count"
    assert desk.woken == [asked, asked]


@pytest.mark.parametrize("target", [EVERYTHING, "Job", "Job.batch", REF.key])
def test_what_is_suspended_is_neither_written_nor_planned_nor_deleted(desk: Desk, target: str) -> None:
    """What existed before gangplan was given back, and lost its fields, though it was to be left alone."""
    gone = Change("release", REF, live=JOB)
    for suspended, found in ((target, {REF.key}), ("Queue", set())):
        desk.ask(Requests().with_suspended(suspended))
        assert desk.part.suspended_keys({REF.key: JOB}) == found
        assert desk.part.suspended_jobs([REF]) == dict.fromkeys(found, BY_REQUEST)
        assert desk.part.hold_reason(gone) == (SUSPENDED if found else "")


def test_an_annotation_suspends_as_well(desk: Desk) -> None:
    marked = {**JOB, "metadata": {**JOB["metadata"], "annotations": {SUSPEND_ANNOTATION: "true"}}}
    assert desk.part.suspended_keys({REF.key: marked, "other": JOB}) == {REF.key}
    assert desk.part.hold_reason(Change("prune", REF, live=marked)) == SUSPENDED
