"""What is said is said once, and an idle cluster is not written to."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

from reconciler.drift import Change
from reconciler.objects import Object, Ref
from reconciler.report import Condition, JsonLines, Metrics, Publisher, Report, as_text, status
from tests.unit.reconciler.scripted import Answer, Server, refusal

GANG: dict[str, Any] = {
    "kind": "Job",
    "namespace": "default",
    "name": "train",
    "queue": "team",
    "decision": "wait",
    "domains": [],
    "startsAt": None,
}
PLAN: dict[str, Any] = {
    "digest": "sha256:1",
    "gangs": [{**GANG, "reasons": [{"code": "GW101", "message": "8 GPUs are missing"}]}],
}
HELD = (Change("held", Ref("v1", "ConfigMap", "default", "stays"), reason="it is protected"),)


def report(applied: bool = True) -> Report:
    return Report(
        "c0ffee", "c0ffee", (Condition("Applied", applied, "Applied" if applied else "Outstanding"),), PLAN, held=HELD
    )


def test_a_condition_keeps_its_time_until_it_turns() -> None:
    first = status(report(), {}, "10:00")
    assert status(report(), first, "11:00") == first
    turned = status(report(applied=False), first, "12:00")
    assert turned["conditions"][0]["lastTransitionTime"] == "12:00"


def test_the_status_is_written_only_when_it_says_something_new() -> None:
    server = Server(lambda method, path, body: refusal(404) if method == "GET" else Answer(200, {}))
    publisher = Publisher(server.client(), "gangplan-system", "test", "me")
    publisher.publish(report())
    publisher.publish(report())
    assert [method for method, _, _ in server.asked] == ["GET", "PATCH"]
    publisher.publish(report(applied=False))
    assert [method for method, _, _ in server.asked] == ["GET", "PATCH", "PATCH"]


def test_an_event_is_said_once_and_again_only_with_another_message() -> None:
    server = Server(lambda method, path, body: Answer(201, {}))
    publisher = Publisher(server.client(), "gangplan-system", "test", "me")
    queue: Object = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "team", "uid": "u"},
    }
    for message in ("put back", "put back", "put back again"):
        publisher.event(queue, "Corrected", message, False)
    names = [body["metadata"]["name"] for _, _, body in server.asked]
    assert len(set(names)) == len(names) == 2
    assert all(body["metadata"]["namespace"] == "default" for _, _, body in server.asked), (
        "events of cluster-scoped objects stand in default"
    )


def test_failing_to_report_does_not_stop_the_loop() -> None:
    Publisher(Server(lambda method, path, body: refusal(500)).client(), "gangplan-system", "test", "me").publish(
        report()
    )


def test_people_read_what_waits_and_what_is_held() -> None:
    text = as_text(status(report(), {}, "10:00"))
    assert "wait   default/train (team) GW101: 8 GPUs are missing" in text
    assert "ConfigMap default/stays: it is protected" in text


def test_people_read_when_a_job_is_expected_to_start() -> None:
    waiting = {**PLAN["gangs"][0], "startsAt": "2026-03-02T12:00:00Z"}
    found = status(replace(report(), plan={**PLAN, "gangs": [waiting]}), {}, "10:00")
    assert found["gangs"][0]["startsAt"] == "2026-03-02T12:00:00Z"
    assert "GW101: 8 GPUs are missing; expected to start about 2026-03-02T12:00:00Z" in as_text(found)


def test_metrics_are_prometheus_text() -> None:
    metrics = Metrics()
    metrics.add("changes_total", kind='odd "name"\n')
    metrics.add("changes_total", kind="Queue")
    metrics.add("changes_total", kind="Queue")
    metrics.put("leader", 1)
    assert metrics.text() == (
        "# TYPE gangplan_leader gauge\ngangplan_leader 1\n"
        '# TYPE gangplan_changes_total counter\ngangplan_changes_total{kind="Queue"} 2\ngangplan_changes_total{kind="odd \\"name\\"\\n"} 1\n'
    )


def test_log_lines_are_json_with_their_extras() -> None:
    record = logging.makeLogRecord({"msg": "gates lifted", "levelname": "INFO", "gang": "default/train"})
    line: dict[str, Any] = json.loads(JsonLines().format(record))
    assert (line["message"], line["level"], line["gang"]) == ("gates lifted", "info", "default/train")
