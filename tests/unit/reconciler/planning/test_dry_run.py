"""What the API server says beforehand: a refusal of the object itself counts, nothing else does."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from reconciler.cluster.client import LostLease
from reconciler.planning.dry_run import DryRun, Question
from reconciler.timings import TIMINGS, DryRunTimings
from tests.builders.fake_cluster import FakeCluster
from tests.builders.scripted_server import ScriptedAnswer, error_answer
from tests.builders.threads import no_new_thread

TIMES = TIMINGS.dry_run
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"


def job(name: str, queue: str = "team") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": {"queue": queue}}


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def messages(cluster: FakeCluster, *questions: Question, timings: DryRunTimings = TIMES) -> list[str]:
    dry_run = DryRun(cluster.client(), lambda: None, timings=timings)
    return [refusal.message for refusal in dry_run.refusals_of(questions)]


def denied(message: str) -> ScriptedAnswer:
    return error_answer(403, f'admission webhook "validate" denied the request: {message}')


def test_all_objects_are_asked_about_and_none_is_written() -> None:
    cluster = FakeCluster()
    cluster.before = lambda method, path, body: (
        denied("too greedy") if body and body["metadata"]["name"] in ("job-3", "job-30") else None
    )
    questions = [Question(job(f"job-{at}"), f"jobs/x.yaml:{at}") for at in range(40)]
    refusals = DryRun(cluster.client(), lambda: None).refusals_of(questions)
    assert [refusal.question.position for refusal in refusals] == ["jobs/x.yaml:3", "jobs/x.yaml:30"]
    assert refusals[0].message == 'admission webhook "validate" denied the request: too greedy'
    assert len(cluster.requests) == 40
    assert all("dryRun=All" in path for _, path, _ in cluster.requests)
    assert not cluster.objects


@pytest.mark.parametrize(
    "answer",
    [
        error_answer(404, 'namespaces "new" not found'),
        error_answer(403, 'widgets "a" is forbidden: User "gangplan" cannot patch resource "widgets" in API group "x"'),
        error_answer(403, "unable to create new content in namespace n because it is being terminated"),
        error_answer(409, "fields", [{"reason": "FieldManagerConflict", "message": 'conflict with "kubectl"'}]),
        error_answer(500, "failed calling webhook"),
        error_answer(400, "admission webhook mutate does not support dry run"),
    ],
)
def test_what_says_nothing_about_the_object_is_no_refusal(answer: ScriptedAnswer) -> None:
    cluster = FakeCluster()
    cluster.before = lambda method, path, body: answer
    assert not messages(cluster, Question(job("a"), "a:1"), timings=DryRunTimings(outage=0.0))


FULL = "exceeded quota: few, requested: count/jobs=1, used: count/jobs=3, limited: count/jobs=3"
POLICY = "ValidatingAdmissionPolicy 'no-bad' with binding 'no-bad' denied request: this one is bad"


@pytest.mark.parametrize("message", [FULL, POLICY, 'violates PodSecurity "restricted:latest": privileged'])
def test_what_admission_refuses_with_403_holds_the_commit(message: str) -> None:
    """It was taken for a missing right, and the commit applied in part."""
    cluster = FakeCluster()
    cluster.before = lambda method, path, body: error_answer(403, f'jobs "a" is forbidden: {message}')
    assert messages(cluster, Question(job("a"), "a:1")) == [f'jobs "a" is forbidden: {message}']


@pytest.mark.parametrize(
    ("message", "is_refused"),
    [
        (FULL, False),
        ("status unknown for quota: few, resources: count/jobs", False),
        ("failed quota: few: must specify limits.cpu for: main", True),
        (POLICY, True),
    ],
)
def test_what_may_wait_for_room_in_a_quota_is_not_refused_by_a_full_one(message: str, is_refused: bool) -> None:
    """What holds the quota now may be a job that the very same commit takes out."""
    cluster = FakeCluster()
    cluster.before = lambda method, path, body: error_answer(403, f'jobs "a" is forbidden: {message}')
    assert bool(messages(cluster, Question(job("a"), "a:1", may_wait=True))) == is_refused


def test_a_quota_of_the_same_commit_refuses_nothing() -> None:
    cluster = FakeCluster()
    cluster.before = lambda method, path, body: error_answer(403, f'jobs "a" is forbidden: {FULL}')
    assert not messages(cluster, Question(job("a"), "a:1", others=frozenset({"few"})))


def test_a_question_without_an_answer_is_asked_again() -> None:
    cluster = FakeCluster()
    answers = iter([error_answer(503), denied("no")])
    cluster.before = lambda method, path, body: next(answers)
    assert messages(cluster, Question(job("a"), "a:1"))


def test_a_server_that_answers_nothing_for_a_moment_lets_nothing_pass() -> None:
    """Three questions within a millisecond had no answer, and a commit with a job that is refused was in force."""
    cluster = FakeCluster()
    back_at = time.monotonic() + 0.5
    cluster.before = lambda method, path, body: error_answer(503) if time.monotonic() < back_at else denied("no")
    assert messages(cluster, *(Question(job(f"job-{at}"), f"jobs/x.yaml:{at}") for at in range(20)))


def refuse_unknown_queue(method: str, path: str, body: Any) -> ScriptedAnswer | None:
    """As Volcano's admission does."""
    problems = [] if body["spec"].get("queue") == "default" else ["unable to find job queue: queues team not found"]
    problems += ["minAvailable should not be greater"] if body["metadata"]["name"] == "greedy" else []
    return denied(";".join(problems)) if problems else None


def test_a_job_whose_queue_comes_in_the_same_commit_is_dry_run_with_another_queue() -> None:
    cluster = FakeCluster()
    cluster.before = refuse_unknown_queue
    others = frozenset({"team"})
    assert messages(
        cluster, Question(job("good"), "a:1", others=others), Question(job("greedy"), "b:1", others=others)
    ) == ['admission webhook "validate" denied the request: minAvailable should not be greater']


def test_a_job_that_exists_keeps_its_queue_though_that_changes_in_the_same_commit() -> None:
    """Volcano refuses another queue of a job that exists, so every such commit was held for good."""
    cluster = FakeCluster()
    live = cluster.put(f"{JOBS}/a", job("a"))
    cluster.before = lambda method, path, body: (
        denied("job updates may not change fields") if body["spec"]["queue"] != "team" else None
    )
    assert not messages(cluster, Question(job("a"), "a:1", uid=live["metadata"]["uid"], others=frozenset({"team"})))


def test_a_job_whose_queue_is_nowhere_is_refused() -> None:
    cluster = FakeCluster()
    cluster.before = refuse_unknown_queue
    assert messages(cluster, Question(job("lost"), "a:1"))


def test_a_queue_is_not_measured_against_queues_that_change_with_it() -> None:
    cluster = FakeCluster()
    cluster.before = lambda method, path, body: (
        denied("more than queue parent has") if "capability" in body["spec"] or body["spec"]["weight"] == 0 else None
    )
    others = frozenset({"parent"})
    assert not messages(cluster, Question(queue("good", weight=1, capability={"cpu": 1}), "a:1", others=others))
    cluster.before = lambda method, path, body: denied("weight") if body["spec"]["weight"] == 0 else None
    assert messages(cluster, Question(queue("bad", weight=0, capability={"cpu": 1}), "a:1", others=others))


def test_an_object_that_exists_is_asked_about_as_a_change_and_a_new_run_under_another_name() -> None:
    cluster = FakeCluster()
    live = cluster.put(f"{JOBS}/a", job("a"))
    question = Question(job("a", "other"), "a:1", uid=live["metadata"]["uid"])
    renamed = Question(job("a", "third"), "a:1", is_renamed=True)
    assert not messages(cluster, question, renamed)
    asked = {path.partition("?")[0].rpartition("/")[2]: body for _, path, body in cluster.requests}
    assert asked["a"]["metadata"]["uid"] == live["metadata"]["uid"]
    assert asked["x"]["spec"]["queue"] == "third"
    assert cluster.objects[f"{JOBS}/a"]["spec"]["queue"] == "team"


def test_a_lost_lease_ends_the_questions_without_an_answer() -> None:
    cluster = FakeCluster()
    client = cluster.client()

    def closed() -> None:
        raise LostLease("another replica holds the lease")

    client.fence = closed
    woken = threading.Event()
    dry_run = DryRun(client, woken.set)
    many = [Question(job(f"job-{at}"), "a:1") for at in range(TIMES.askers + 1)]
    dry_run.start(many)
    assert woken.wait(30)
    assert dry_run.take_result() is None
    assert not dry_run.is_busy
    client.fence = lambda: None
    woken.clear()
    dry_run.start(many)
    assert woken.wait(30)
    assert dry_run.take_result() == ()


def test_the_answers_to_few_questions_are_there_at_once_and_late_ones_are_told() -> None:
    cluster, woken, hangs = FakeCluster(), threading.Event(), threading.Event()
    dry_run = DryRun(cluster.client(), woken.set, timings=DryRunTimings(moment=30.0))
    dry_run.start([Question(job("a"), "a:1")])
    assert not dry_run.is_busy
    assert dry_run.take_result() == ()
    assert not woken.is_set(), "nobody waits for it any more"

    def hang(method: str, path: str, body: Any) -> ScriptedAnswer | None:
        hangs.wait(30)
        return None

    cluster.before = hang
    dry_run = DryRun(cluster.client(), woken.set, timings=DryRunTimings(moment=0.01))
    dry_run.start([Question(job("b"), "b:1")])
    assert dry_run.is_busy
    hangs.set()
    assert woken.wait(30)
    assert dry_run.take_result() == ()


def test_a_kind_that_gets_no_answer_is_not_asked_about_for_long_and_others_are() -> None:
    """A webhook that hangs was waited for three times for each object of its kind, twelve at a time."""
    cluster, times = FakeCluster(), [0.0]

    def hang(method: str, path: str, body: Any) -> ScriptedAnswer | None:
        if body["kind"] != "Queue":
            return None
        times.append(times[-1] + 1.0)
        return error_answer(500, "failed calling webhook: context deadline exceeded")

    cluster.before = hang
    questions = [Question(queue(f"q-{at}"), f"q.yaml:{at}") for at in range(200)]
    questions += [Question(job(f"job-{at}"), f"jobs.yaml:{at}") for at in range(20)]
    assert not DryRun(cluster.client(), lambda: None, lambda: times[-1]).refusals_of(questions)
    asked = [body["kind"] for _, _, body in cluster.requests]
    assert asked.count("Job") == 20
    assert TIMES.patience <= asked.count("Queue") < TIMES.patience + 2 * TIMES.askers, "those under way end"
    assert asked.count("Queue") < 200 * TIMES.attempts


def test_a_long_wait_is_told_and_a_round_that_is_given_up_keeps_no_other_waiting() -> None:
    cluster, now, hangs, woken = FakeCluster(), [0.0], threading.Event(), threading.Event()
    asked = threading.Event()

    def hang(method: str, path: str, body: Any) -> ScriptedAnswer | None:
        if body["kind"] == "Queue":
            asked.set()
            hangs.wait(30)
        return None

    cluster.before = hang
    dry_run = DryRun(cluster.client(), woken.set, lambda: now[0])
    assert (dry_run.delay(), dry_run.seconds_to_tell()) == ("", None)
    dry_run.start([Question(queue("slow"), "q:1")])
    assert asked.wait(30)
    assert (dry_run.delay(), dry_run.seconds_to_tell()) == ("", TIMES.tell_after)
    now[0] = TIMES.tell_after
    assert dry_run.delay() == "Queue slow: nothing has come yet"
    assert dry_run.seconds_to_tell() is None
    dry_run.give_up()
    assert (dry_run.is_busy, dry_run.delay()) == (False, "")
    dry_run.start([Question(job("good"), "j:1")])
    assert woken.wait(30)
    assert dry_run.take_result() == ()
    hangs.set()


def test_a_thread_that_cannot_be_started_keeps_no_commit_waiting() -> None:
    """The round without a thread never ended: its commit was never in force."""
    asked = DryRun(FakeCluster().client(), lambda: None)
    question = Question(queue("a"), "x:1")
    with no_new_thread(), pytest.raises(RuntimeError):
        asked.start([question])
    assert not asked.is_busy
    asked.start([question])
    while (result := asked.take_result()) is None:
        time.sleep(0.001)
    assert result == ()


def test_a_round_shows_that_it_goes_on_with_each_question_and_one_that_was_given_up_shows_nothing() -> None:
    gate, cluster = threading.Event(), FakeCluster()

    def hang(method: str, path: str, body: Any) -> None:
        if "hangs" in path:
            gate.wait()

    cluster.before = hang
    asked = DryRun(cluster.client(), lambda: None)
    asked.start([Question(queue("hangs"), "x:1"), *(Question(queue(f"q-{at}"), "x:1") for at in range(20))])
    while len(cluster.requests) < 21:
        time.sleep(0.001)
    under_way = asked.heartbeat
    assert under_way.last_beat is not None
    under_way.beat_as_of(0.0)
    asked.give_up()
    assert asked.heartbeat.seconds_late() == 0.0
    gate.set()
