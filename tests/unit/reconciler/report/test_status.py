"""What is said is said once, and an idle cluster is not written to."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from compiler.fields.times import rfc3339
from compiler.outputs import PromiseEntry, StartWindowEntry, WindowEntry
from reconciler.changes.planned import PlannedGang
from reconciler.changes.results import Condition
from reconciler.cluster.objects import Ref
from reconciler.inventory.store import FinishedRun
from reconciler.report.status import (
    MAX_MESSAGES,
    PLAIN_LIMIT,
    PlanSummary,
    Report,
    StatusPublisher,
    StatusReader,
    read_status,
    status_document,
)
from reconciler.report.status_text import (
    MAX_CHANGES,
    condition_sentence,
    job_document,
    job_text,
    reason_history,
    status_text,
)
from tests.builders.fake_cluster import FakeCluster, stored_sizes
from tests.builders.outputs import assert_conforms
from tests.builders.scripted_server import ScriptedAnswer, error_answer

JOB = Ref("batch.volcano.sh/v1alpha1", "Job", "default", "train")
GANG = PlannedGang(JOB, "wait", queue="team", reasons=("GW101: 8 GPUs are missing",))
HELD = ((Ref("v1", "ConfigMap", "default", "stays"), "it is protected"),)
APPLIED, OUTSTANDING = Condition("Applied", True, "Applied"), Condition("Applied", False, "Outstanding")
REPORT = Report("c0ffee", "c0ffee", (APPLIED,), plan=PlanSummary("sha256:1"), gangs=(GANG,), held=HELD)
FAILED = replace(REPORT, conditions=(OUTSTANDING,))


@dataclass
class World:
    cluster: FakeCluster
    now: float = 100.0

    def publisher(self) -> StatusPublisher:
        return StatusPublisher(self.cluster.client(), "gangplan-system", "test", clock=lambda: self.now)

    def read(self) -> dict[str, Any]:
        return read_status(self.cluster.client(), self.publisher().ref)

    def change(self, text: str) -> None:
        """Somebody writes this into the status."""
        ((path, item),) = self.cluster.objects.items()
        self.cluster.objects[path] = {**item, "data": {"status.json": text}}


@pytest.fixture
def world() -> World:
    return World(FakeCluster())


def test_a_condition_keeps_its_time_until_it_turns() -> None:
    first = status_document(REPORT, {}, "10:00")
    assert_conforms("status", first)
    assert status_document(REPORT, first, "11:00") == first
    turned = status_document(FAILED, first, "12:00")
    assert turned["conditions"][0]["lastTransitionTime"] == "12:00"


def test_the_log_says_once_that_a_condition_has_turned(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A reconciler that stood still, as its inventory was lost, logged not one line on it."""
    caplog.set_level(logging.INFO)
    lost, publisher = Condition("InventoryLost", True, "Held", "the inventory is lost"), world.publisher()
    for condition in (lost, lost, Condition("InventoryLost", False, "Present")):
        publisher.publish(replace(REPORT, conditions=(APPLIED, condition)))
    said = [(line.levelname, vars(line)["reason"], vars(line)["detail"]) for line in caplog.records]
    assert said == [("WARNING", "Held", "the inventory is lost"), ("INFO", "Present", "")]


def test_only_news_is_written_and_gangs_that_start_wait_for_the_next_write(world: World) -> None:
    publisher = world.publisher()
    started = replace(REPORT, gangs=(replace(GANG, decision="keep"),))

    def publish(report: Report) -> tuple[int, float | None]:
        publisher.publish(report)
        return len(world.cluster.writes), publisher.due_at

    assert [publish(REPORT), publish(REPORT), publish(started)] == [(1, None), (1, None), (1, 101.0)]
    assert publish(replace(started, conditions=(OUTSTANDING,))) == (2, None), "a condition does not wait"
    assert publish(FAILED) == (2, 101.0)
    world.now = 101.0
    assert publish(FAILED) == (3, None)


def test_people_read_what_waits_and_what_is_held() -> None:
    waiting = replace(GANG, starts_at="2026-03-02T12:00:00Z")
    for gang, told in ((GANG, ""), (waiting, "; expected to start about 2026-03-02T12:00:00Z")):
        text = status_text(status_document(replace(REPORT, gangs=(gang,)), {}, "10:00"))
        row = f"wait       default/train   Job    team    GW101: 8 GPUs are missing{told}"
        assert f"DECISION   JOB             KIND   QUEUE   WHERE-OR-WHY\n{row}\n" in text
    assert "QUEUE   JOBS   START   KEEP   WAIT   EVICT\nteam    1      0       0      1      0\n" in text
    assert "ConfigMap default/stays   it is protected\n" in text
    assert f"Applied     True     Applied   {condition_sentence('Applied', True)}\n" in text
    assert condition_sentence("FromTheFuture", True) == ""
    assert "more" not in text
    assert "DOMAIN" not in text
    cut = status_document(replace(REPORT, held=HELD * 60), {}, "10:00")
    assert (len(cut["held"]), cut["heldTotal"]) == (MAX_MESSAGES, 60)
    assert f"and {60 - MAX_MESSAGES} more" in status_text(cut)


def test_a_problem_reads_as_in_check() -> None:
    where = {"file": "jobs/a.yaml", "line": 7, "column": 3}
    words = {"message": "there is no queue 'servng'", "help": "did you mean 'serving'?"}
    found = {**where, **words, "code": "GP302", "severity": "error"}
    assert status_document(replace(REPORT, diagnostics=(found,)), {}, "10:00")["diagnostics"] == [
        "jobs/a.yaml:7:3: error GP302: there is no queue 'servng'. Fix: did you mean 'serving'?"
    ]


def test_a_status_of_more_jobs_than_a_config_map_holds_lists_those_that_wait_first(world: World) -> None:
    """From some 27,000 jobs on the server refused it as a whole, its conditions too."""
    publisher = world.publisher()
    publisher.size_limit = PLAIN_LIMIT // 2

    def jobs(number: int) -> tuple[PlannedGang, ...]:
        running = replace(GANG, decision="keep", reasons=())
        found = (replace(running if at % 4 else GANG, job=JOB._replace(name=f"j-{at}")) for at in range(number))
        return tuple(found)

    publisher.publish(replace(REPORT, gangs=jobs(800)))
    status = world.read()
    names = [gang["name"] for gang in status["gangs"]]
    assert (status["gangsTotal"], 200 < len(names) < 800) == (800, True)
    assert [gang["decision"] for gang in status["gangs"]].count("wait") == 200
    assert names == sorted(names, key=lambda name: int(name[2:]))
    assert f"and {800 - len(names)} more" in status_text(status)
    writes = len(world.cluster.writes)
    publisher.publish(replace(REPORT, gangs=jobs(800)))
    assert len(world.cluster.writes) == writes, "an idle cluster is not written"
    publisher.publish(replace(REPORT, gangs=jobs(100)), at_once=True)
    assert len(world.read()["gangs"]) == 100


def test_people_read_windows_of_starts_and_how_they_held() -> None:
    promised: WindowEntry = {"earliest": "09:00", "latest": "10:00"}
    window: StartWindowEntry = {
        "earliest": "11:00",
        "latest": "12:00",
        "share": 80,
        "promised": promised,
        "moved": "GPUs",
    }
    score: PromiseEntry = {"made": 10, "estimates": 0, "inside": 0.8, "width": 0.5, "error": 60, "errorByLimits": 3600}
    report = replace(REPORT, gangs=(replace(GANG, start_window=window),), plan=PlanSummary("sha256:1", score))
    document = status_document(report, {}, "10:00")
    text = status_text(document)
    told = "expected to start between 11:00 and 12:00 (80 %); first promised from 09:00 to 10:00: GPUs"
    assert told in text
    assert f"  {told}" in text_of(document, "train").splitlines()
    assert "80% of 10 jobs started in their window, 50% of the wait wide; error 1 min; by declared" in text
    assert "by declared durations 1 h" in text
    estimates = replace(report, plan=PlanSummary("sha256:1", {**score, "estimates": 3}))
    assert "in their window (without 3 first estimates), 50%" in status_text(status_document(estimates, {}, "10:00"))
    unknown = replace(report, plan=PlanSummary("sha256:1", {**score, "errorByLimits": None}))
    assert "wide; error 1 min\n" in status_text(status_document(unknown, {}, "10:00"))


def test_people_read_what_holds_a_domain_and_all_of_one_job() -> None:
    placed = replace(GANG, decision="keep", reasons=(), domains=("sn-0", "sn-1"))
    other = replace(placed, job=JOB._replace(name="other"), queue="x", domains=("sn-1",))
    waiting = replace(GANG, job=JOB._replace(name="waits"), starts_at="2026-03-02T12:00:00Z")
    report = replace(REPORT, gangs=(placed, other, waiting), held=((JOB, "the quota is full"),))
    document = status_document(report, {}, "10:00")
    assert "DOMAIN   JOBS   QUEUES\nsn-0     1      team\nsn-1     2      team, x\n" in status_text(document)
    assert text_of(document, "train").splitlines() == [
        "DECISION   JOB             KIND   QUEUE",
        "keep       default/train   Job    team",
        "  domains: sn-0, sn-1",
        "  not applied: the quota is full",
    ]
    assert text_of(document, "waits").splitlines()[2:] == [
        "  GW101: 8 GPUs are missing",
        "  expected to start about 2026-03-02T12:00:00Z",
        "  since 10:00   wait: GW101 no room in the queue",
    ]
    assert text_of(document, "unknown") == ""


def text_of(document: Mapping[str, Any], name: str) -> str:
    """What people read of one job."""
    return job_text(job_document(document, "default", name), {"GW101": "no room in the queue"})


def test_people_read_which_nodes_jobs_hold_and_for_whom_pods_go() -> None:
    pods = {"master": {"n-0": 1}, "worker": {"n-0": 1, "n-1": 2}}
    victim = PlannedGang(JOB, "keep", pods, queue="team", evicted_for=("x/large",))
    wide = PlannedGang(JOB._replace(name="wide"), "start", {"w": {f"m-{at:02}": 1 for at in range(99)}})
    document = status_document(replace(REPORT, gangs=(victim, wide)), {}, "10:00")
    text = status_text(document)
    assert "NODE          PODS   JOBS\nm-00          1      default/wide\n" in text
    assert "and 61 more          see status -o json" in text
    assert "LOSES-PODS      QUEUE   FOR\ndefault/train   team    x/large" in text
    shown = text_of(document, "train")
    assert "  nodes: n-0, n-1\n  loses pods for x/large\n" in shown
    assert document["gangs"][0]["nodes"] == {"n-0": 2, "n-1": 2}


def test_a_replica_that_does_not_lead_shows_what_the_leader_wrote(world: World) -> None:
    clock, leads = [0.0], [False]
    reader = StatusReader(world.publisher(), lambda: leads[0], 5.0, lambda: clock[0])
    assert reader.document() is None
    world.publisher().publish(REPORT)
    assert reader.document() is None  # read at most once in five seconds
    clock[0] = 5.0
    assert (reader.document() or {})["commit"] == REPORT.commit
    world.cluster.fail(error_answer(500))
    clock[0] = 10.0
    assert (reader.document() or {})["commit"] == REPORT.commit
    leads[0] = True
    assert reader.document() is None  # it leads, and has not reported yet


def test_a_status_keeps_since_when_a_job_waited_for_which_reasons(world: World) -> None:
    """In the status itself, so that the next process, and another leader, go on with it."""
    waits = PlannedGang(JOB, "wait", queue="team", reasons=("GW101: 8 are missing",))
    says = [
        waits,
        replace(waits, reasons=("GW101: 4 are missing",)),
        replace(waits, reasons=("GW104: no domain", "GW101: 4 are missing")),
        replace(waits, decision="start", reasons=()),
        replace(waits, decision="keep", reasons=()),
    ]
    never_waited = PlannedGang(JOB._replace(name="runs"), "keep")
    document: Mapping[str, Any] = {}
    for hour, gang in enumerate(says):
        report = replace(REPORT, gangs=(gang, never_waited))
        document = json.loads(json.dumps(status_document(report, document, f"{hour}:00")))
        assert status_document(report, document, "later") == document
    assert document["history"] == {
        "Job default/train": [
            {"since": "0:00", "decision": "wait", "codes": ["GW101"]},
            {"since": "2:00", "decision": "wait", "codes": ["GW101", "GW104"]},
            {"since": "3:00", "decision": "start", "codes": []},
            {"since": "4:00", "decision": "keep", "codes": []},
        ]
    }
    for hour in range(5, 25):
        document = status_document(replace(REPORT, gangs=(says[hour % 2 * 2],)), document, f"{hour}:00")
    rows = document["history"]["Job default/train"]
    assert [row["since"] for row in rows] == [f"{hour}:00" for hour in range(25 - MAX_CHANGES, 25)]
    before_the_first_plan = status_document(Report("", "", ()), document, "25:00")
    assert before_the_first_plan["history"] == document["history"]
    assert status_document(replace(REPORT, gangs=(never_waited,)), document, "25:00")["history"] == {}


def test_a_replica_that_leads_again_goes_on_with_what_another_leader_wrote(world: World) -> None:
    first, second = world.publisher(), world.publisher()
    first.publish(REPORT)
    second.publish(replace(REPORT, gangs=(replace(GANG, reasons=("GW104: no domain",)),)))
    first.recheck()
    first.publish(replace(REPORT, gangs=(replace(GANG, decision="keep", reasons=()),)), at_once=True)
    codes = [row["codes"] for row in world.read()["history"]["Job default/train"]]
    assert codes == [["GW101"], ["GW104"], []]


def test_the_history_of_2000_waiting_jobs_stays_small(world: World) -> None:
    """Each change at a time of its own is the worst for the compression."""
    report, document = large_report(2000), dict[str, Any]()
    for at in range(2 * MAX_CHANGES):
        reasons = (f"GW10{at % 2}: full", "GW114: room is held for another")
        gangs = tuple(replace(gang, reasons=reasons) for gang in report.gangs)
        history = reason_history(gangs, document, "")
        for number, rows in enumerate(history.values()):
            rows[-1]["since"] = rfc3339(1_700_000_000 + 86_400 * at + number * number % 86_399)
        document = history
    packed = gzip.compress(json.dumps(document, sort_keys=True).encode())
    assert {len(rows) for rows in document.values()} == {MAX_CHANGES}
    assert len(packed) < 100 << 10


def large_report(gangs: int, note: str = "") -> Report:
    found = [
        replace(
            GANG,
            job=JOB._replace(name=f"train-{at}"),
            reasons=(f"GW101: {at} GPUs are missing{note if at == 3 else ''}", "GW114: room is held for another"),
            domains=tuple(f"supernode-{number}" for number in range(8)),
        )
        for at in range(gangs)
    ]
    runs = tuple(FinishedRun(JOB._replace(name=f"finished-{at}"), "a", "Completed") for at in range(10_000))
    return replace(REPORT, gangs=tuple(found), runs=runs)


def test_5000_gangs_are_stored_below_the_limit_of_a_config_map_and_written_as_much_more_seldom(world: World) -> None:
    """S10: the status ended at about 4,500 gangs. 1,000 jobs that start one after another are news in each pass."""
    publisher = world.publisher()
    publisher.publish(large_report(5000))
    assert max(stored_sizes(world.cluster.objects).values()) < 512 << 10
    found = world.read()
    assert found == status_document(large_report(5000), found, "later")
    assert (len(found["gangs"]), len(found["finished"]), found["finishedTotal"]) == (5000, 1000, 10_000)
    later = large_report(5000, note=" now")
    for seconds, written in ((4.9, 1), (5.0, 2), (5.0, 2)):
        world.now = 100.0 + seconds
        publisher.publish(later)
        assert len(world.cluster.writes) == written
    assert world.read()["gangs"][3]["reasons"][0] == "GW101: 3 GPUs are missing now"
    publisher.publish(replace(later, commit="b" * 40))
    assert world.read()["commit"] == "b" * 40, "a commit does not wait"
    publisher.publish(large_report(3), at_once=True)
    assert len(world.read()["gangs"]) == 3, "one that people can read takes its place"


OTHER_SHAPES = (
    "null", "[]", "7", "{", '{"conditions": "x"}', '{"conditions": [null]}', '{"conditions": [{"type": "Applied"}]}',
    '{"gangs": 5}', '{"gangs": [{}]}', '{"held": {"a": 1}}', '{"history": [1]}',
    '{"history": {"Job a/b": [{"since": "10:00", "decision": "wait"}]}}',
)  # fmt: skip


@pytest.mark.parametrize("text", OTHER_SHAPES)
@pytest.mark.parametrize("is_failure", [False, True])
def test_a_status_of_another_shape_ends_no_pass_and_no_report(world: World, text: str, is_failure: bool) -> None:
    """A condition without its fields ended every pass, and before it began once two had failed."""
    world.publisher().publish(REPORT)
    world.change(text)
    with pytest.raises(ValueError):
        world.read()
    fresh = world.publisher()
    fresh.publish_failure("no") if is_failure else fresh.publish(REPORT)
    assert world.read()["conditions"]


def test_a_status_whose_write_hangs_is_not_tried_again_for_longer_than_it_hung(world: World) -> None:
    """The loop waits for it, and gates and drift for the loop."""

    def hang(method: str, path: str, body: Any) -> ScriptedAnswer | None:
        world.now += 30.0 if method != "GET" else 0.0
        return error_answer(500) if method != "GET" else None

    world.cluster.before = hang
    publisher = world.publisher()
    publisher.publish(REPORT)
    publisher.publish(FAILED)
    publisher.publish_failure("x")
    assert (len(world.cluster.writes), publisher.seconds_due()) == (1, 60.0)
    world.cluster.before, world.now = lambda method, path, body: None, 190.0
    publisher.publish(REPORT)
    assert len(world.cluster.objects) == 1


@pytest.mark.parametrize("text", [None, "[]", '{"commit": "another"}'])
def test_a_status_that_somebody_deletes_or_changes_is_written_again(world: World, text: str | None) -> None:
    """Seen once: a status that somebody deleted or changed stayed so until something else was new."""
    publisher = world.publisher()
    publisher.recheck()
    publisher.publish(REPORT)
    publisher.recheck()
    publisher.publish(REPORT)
    assert len(world.cluster.writes) == 1, "an idle cluster is not written"
    if text is None:
        world.cluster.objects.clear()
    else:
        world.change(text)
    publisher.recheck()
    publisher.publish(REPORT)
    assert world.read()["commit"] == "c0ffee"


def test_an_annotation_is_removed_unless_its_value_stays_and_again_after_a_failure(world: World) -> None:
    name, publisher = "gangplan.dev/allow-rewrite", world.publisher()
    assert publisher.remove_annotation(name, lambda value: False), "without a status there is none"
    publisher.publish(REPORT)
    ((path, item),) = world.cluster.objects.items()
    marked = {**item["metadata"], "annotations": {name: "a..b", "other": "stays"}}
    world.cluster.objects[path] = {**item, "metadata": marked}
    assert publisher.remove_annotation(name, lambda value: value == "a..b")
    assert publisher.read_annotations() == {name: "a..b", "other": "stays"}
    world.cluster.before = lambda method, path, body: error_answer(409, "changed") if method == "PATCH" else None
    assert not publisher.remove_annotation(name, lambda value: False)
    world.cluster.recover()
    assert publisher.remove_annotation(name, lambda value: False)
    assert publisher.read_annotations() == {"other": "stays"}
