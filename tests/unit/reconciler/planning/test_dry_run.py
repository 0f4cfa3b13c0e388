"""What the API server says beforehand: a refusal of the object itself counts, nothing else does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from compiler.kubernetes import name_of, uid_of
from reconciler.cluster.objects import Object
from reconciler.planning.dry_run import DryRun, Question
from reconciler.timings import TIMINGS, DryRunTimings
from tests.builders.declared import queue
from tests.builders.fake_cluster import FakeCluster
from tests.builders.live import VOLCANO
from tests.builders.planning import refusals_of
from tests.builders.scripted_server import ScriptedAnswer, error_answer, manager_conflict, served
from tests.builders.threads import lose_lease
from tests.builders.writing import volcano_job

TIMES = TIMINGS.dry_run
JOBS = f"/apis/{VOLCANO}/namespaces/default/jobs"
TEAM = frozenset({"team"})


def job(name: str, queue: str = "team") -> Object:
    return volcano_job(name, {"queue": queue})


def ask(item: Object, **more: Any) -> Question:
    return Question(item, f"{name_of(item)}.yaml:1", **more)


def messages(cluster: FakeCluster, *questions: Question, outage: float = TIMES.outage) -> list[str]:
    dry_run = DryRun(cluster.client(), lambda: None, questions, timings=DryRunTimings(outage=outage))
    return [refusal.message for refusal in refusals_of(dry_run) or ()]


def denied(message: str) -> ScriptedAnswer:
    return error_answer(403, f'admission webhook "validate" denied the request: {message}')


def refuse(cluster: FakeCluster, message: str, is_refused: Callable[[Object], bool]) -> None:
    """Let admission refuse such objects."""
    cluster.before = lambda method, path, body: denied(message) if body and is_refused(body) else None


def hang(cluster: FakeCluster, kind: str = "Queue") -> tuple[threading.Event, threading.Event]:
    """Let questions about this kind wait for the second event; the first says that one has come."""
    come, gate = threading.Event(), threading.Event()

    def wait(method: str, path: str, body: Any) -> None:
        if body["kind"] == kind:
            come.set()
            gate.wait(30)

    cluster.before = wait
    return come, gate


def test_all_objects_are_asked_about_and_none_is_written(cluster: FakeCluster) -> None:
    refuse(cluster, "too greedy", lambda item: name_of(item) in ("job-3", "job-30"))
    refusals = refusals_of(DryRun(cluster.client(), lambda: None, [ask(job(f"job-{at}")) for at in range(40)])) or ()
    assert [refusal.question.position for refusal in refusals] == ["job-3.yaml:1", "job-30.yaml:1"]
    assert refusals[0].message == 'admission webhook "validate" denied the request: too greedy'
    assert len(cluster.requests) == 40
    assert all("dryRun=All" in path for _, path, _ in cluster.requests)
    assert not cluster.objects


@pytest.mark.parametrize(
    "answer",
    [
        error_answer(404, 'namespaces "new" not found'),
        error_answer(403, 'widgets "a" is forbidden: User "gangplan" cannot patch resource "widgets" in API group "x"'),
        manager_conflict("kubectl", ".spec.queue"),
        error_answer(500, "failed calling webhook"),
        error_answer(400, "admission webhook mutate does not support dry run"),
    ],
)
def test_what_says_nothing_about_the_object_is_no_refusal(cluster: FakeCluster, answer: ScriptedAnswer) -> None:
    cluster.fail(answer)
    assert not messages(cluster, ask(job("a")), outage=0.0)


FULL = "exceeded quota: few, requested: count/jobs=1, used: count/jobs=3, limited: count/jobs=3"
POLICY = "ValidatingAdmissionPolicy 'no-bad' with binding 'no-bad' denied request: this one is bad"


@pytest.mark.parametrize("message", [FULL, POLICY, 'violates PodSecurity "restricted:latest": privileged'])
def test_what_admission_refuses_with_403_holds_the_commit(cluster: FakeCluster, message: str) -> None:
    """It was taken for a missing right, and the commit applied in part."""
    cluster.fail(error_answer(403, f'jobs "a" is forbidden: {message}'))
    assert messages(cluster, ask(job("a"))) == [f'jobs "a" is forbidden: {message}']


@pytest.mark.parametrize(
    ("message", "is_refused", "more"),
    [
        (FULL, False, {"may_wait": True}),
        (FULL, False, {"others": frozenset({"few"})}),
        ("status unknown for quota: few, resources: count/jobs", False, {"may_wait": True}),
        ("failed quota: few: must specify limits.cpu for: main", True, {"may_wait": True}),
        (POLICY, True, {"may_wait": True}),
    ],
)
def test_what_may_wait_for_room_in_a_quota_is_not_refused_by_a_full_one(
    cluster: FakeCluster, message: str, is_refused: bool, more: dict[str, Any]
) -> None:
    """What holds the quota now may be a job that the very same commit takes out; or the quota is of that commit."""
    cluster.fail(error_answer(403, f'jobs "a" is forbidden: {message}'))
    assert bool(messages(cluster, ask(job("a"), **more))) == is_refused


def test_a_question_without_an_answer_is_asked_again(cluster: FakeCluster) -> None:
    cluster.fail(error_answer(503), times=1)
    assert not messages(cluster, ask(job("a")))
    assert len(cluster.requests) == 2


def test_a_server_that_answers_nothing_for_a_moment_lets_nothing_pass(cluster: FakeCluster) -> None:
    """Three questions within a millisecond had no answer, and a commit with a job that is refused was in force."""
    back_at = time.monotonic() + 0.5
    cluster.before = lambda method, path, body: error_answer(503) if time.monotonic() < back_at else denied("no")
    assert messages(cluster, *(ask(job(f"job-{at}")) for at in range(20)))


def refuse_unknown_queue(method: str, path: str, body: Any) -> ScriptedAnswer | None:
    """As Volcano's admission does."""
    problems = [] if body["spec"].get("queue") == "default" else ["unable to find job queue: queues team not found"]
    problems += ["minAvailable should not be greater"] if body["metadata"]["name"] == "greedy" else []
    return denied(";".join(problems)) if problems else None


def test_a_job_whose_queue_comes_in_the_same_commit_is_dry_run_with_another_queue(cluster: FakeCluster) -> None:
    cluster.before = refuse_unknown_queue
    assert messages(cluster, ask(job("good"), others=TEAM), ask(job("greedy"), others=TEAM)) == [
        'admission webhook "validate" denied the request: minAvailable should not be greater'
    ]
    assert messages(cluster, ask(job("lost"))), "its queue is nowhere"


def test_a_queue_of_a_namespace_and_its_jobs_are_judged_once_its_parent_and_it_are_there(cluster: FakeCluster) -> None:
    """What Volcano 1.16 says of a missing queue need not name it."""
    metadata = {"name": "train", "namespace": "ml"}
    local = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "NamespaceQueue", "metadata": metadata}
    spec = {"parent": "cluster/science"}

    def answer(method: str, path: str, body: Any) -> ScriptedAnswer | None:
        if body is None:
            return served("NamespaceQueue")
        return denied("no such thing") if body["spec"].get("queue") != "default" else None

    cluster.before = answer
    together = frozenset({"science", "train"})
    assert not messages(
        cluster, ask({**local, "spec": spec}, others=together), ask(job("a", "ml/train"), others=together)
    )
    assert len(messages(cluster, ask({**local, "spec": spec}), ask(job("a", "ml/train")))) == 2


def test_a_job_that_exists_keeps_its_queue_though_that_changes_in_the_same_commit(cluster: FakeCluster) -> None:
    """Volcano refuses another queue of a job that exists, so every such commit was held for good."""
    live = cluster.put(f"{JOBS}/a", job("a"))
    refuse(cluster, "job updates may not change fields", lambda item: item["spec"]["queue"] != "team")
    assert not messages(cluster, ask(job("a"), uid=uid_of(live), others=TEAM))


def test_a_queue_is_not_measured_against_queues_that_change_with_it(cluster: FakeCluster) -> None:
    good, bad = (ask(queue("q", weight=weight, capability={"cpu": 1}), others=TEAM) for weight in (1, 0))
    refuse(cluster, "more than its parent has", lambda item: "capability" in item["spec"] or not item["spec"]["weight"])
    assert not messages(cluster, good)
    refuse(cluster, "weight", lambda item: not item["spec"]["weight"])
    assert messages(cluster, bad)


def test_what_exists_is_asked_about_as_a_change_and_a_new_run_under_another_name(cluster: FakeCluster) -> None:
    live = cluster.put(f"{JOBS}/a", job("a"))
    assert not messages(cluster, ask(job("a", "other"), uid=uid_of(live)), ask(job("a", "third"), is_renamed=True))
    asked = {path.partition("?")[0].rpartition("/")[2]: body for _, path, body in cluster.requests}
    assert asked["a"]["metadata"]["uid"] == uid_of(live)
    assert asked["x"]["spec"]["queue"] == "third"
    assert cluster.objects[f"{JOBS}/a"]["spec"]["queue"] == "team"


def test_a_lost_lease_ends_the_questions_without_an_answer(cluster: FakeCluster) -> None:
    client, woken = cluster.client(), threading.Event()
    client.fence = lose_lease
    assert refusals_of(DryRun(client, woken.set, [ask(job(f"job-{at}")) for at in range(TIMES.askers + 1)])) is None
    assert woken.wait(30)


def test_the_answers_to_few_questions_are_there_at_once_and_late_ones_are_told(cluster: FakeCluster) -> None:
    woken = threading.Event()
    dry_run = DryRun(cluster.client(), woken.set, [ask(job("a"))], timings=DryRunTimings(moment=30.0))
    dry_run.start()
    assert (dry_run.is_busy, dry_run.result) == (False, ())
    assert not woken.is_set(), "nobody waits for it any more"
    _, gate = hang(cluster, "Job")
    dry_run = DryRun(cluster.client(), woken.set, [ask(job("b"))], timings=DryRunTimings(moment=0.01))
    dry_run.start()
    assert dry_run.is_busy
    gate.set()
    assert woken.wait(30)
    assert dry_run.result == ()


def test_a_kind_that_gets_no_answer_is_not_asked_about_for_long_and_others_are(cluster: FakeCluster) -> None:
    """A webhook that hangs was waited for three times for each object of its kind, twelve at a time."""
    times = [0.0]

    def time_out(method: str, path: str, body: Any) -> ScriptedAnswer | None:
        if body["kind"] != "Queue":
            return None
        times.append(times[-1] + 1.0)
        return error_answer(500, "failed calling webhook: context deadline exceeded")

    cluster.before = time_out
    questions = [ask(queue(f"q-{at}")) for at in range(200)] + [ask(job(f"job-{at}")) for at in range(20)]
    assert not refusals_of(DryRun(cluster.client(), lambda: None, questions, lambda: times[-1]))
    asked = [body["kind"] for _, _, body in cluster.requests]
    assert asked.count("Job") == 20
    assert TIMES.patience <= asked.count("Queue") < TIMES.patience + 2 * TIMES.askers, "those under way end"
    assert asked.count("Queue") < 200 * TIMES.attempts


def test_a_long_wait_is_told_and_a_round_that_is_given_up_keeps_no_other_waiting(cluster: FakeCluster) -> None:
    now = [0.0]
    come, gate = hang(cluster)
    times = DryRunTimings(moment=0.0)
    dry_run = DryRun(cluster.client(), lambda: None, [ask(queue("slow"))], lambda: now[0], times)
    dry_run.start()
    assert come.wait(30)
    assert (dry_run.delay(), dry_run.seconds_to_report()) == ("", TIMES.report_after)
    now[0] = TIMES.report_after
    assert (dry_run.delay(), dry_run.seconds_to_report()) == ("Queue slow: nothing has come yet", None)
    dry_run.give_up()
    assert refusals_of(DryRun(cluster.client(), lambda: None, [ask(job("good"))])) == ()
    gate.set()


def test_a_dry_run_shows_that_it_goes_on(cluster: FakeCluster) -> None:
    _, gate = hang(cluster)
    asked = DryRun(cluster.client(), lambda: None, [ask(queue("hangs")), *(ask(job(f"job-{at}")) for at in range(20))])
    asked.start()
    while len(cluster.requests) < 21:
        time.sleep(0.001)
    assert asked.heartbeat.last_beat is not None
    gate.set()
    assert asked.ended.wait(30)
    assert asked.heartbeat.last_beat is None
