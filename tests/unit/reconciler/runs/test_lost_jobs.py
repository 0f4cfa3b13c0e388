"""A job for which Volcano's job controller does nothing is made again, and one that only waits is not."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from compiler.fields.times import rfc3339
from compiler.kubernetes import name_of, uid_of
from reconciler.cluster.objects import Object, ref_of
from reconciler.runs.lost_jobs import DepartedJobs, LostJobs
from reconciler.timings import TIMINGS
from tests.builders.live import VOLCANO, live

TIMES = TIMINGS.runs
EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"


def job(name: str, phase: str = "Pending", created: str = EARLY, **metadata: Any) -> Object:
    made = live(VOLCANO, "Job", name, creationTimestamp=created, **metadata)
    return {**made, "status": {"state": {"phase": phase}} if phase else {}}


def group(of: Object, phase: str) -> Object:
    made = live("scheduling.volcano.sh/v1beta1", "PodGroup", f"{name_of(of)}-{uid_of(of)}")
    return {**made, "status": {"phase": phase}}


def by_key(*items: Object) -> dict[str, Object]:
    return {ref_of(item).key: item for item in items}


OTHER = job("other", "Running", LATE)
LET_IN, BARE = job("job"), job("job", phase="")


def message_after(seconds: float, jobs: list[Object], *groups: Object, pods: bool = False) -> str:
    lost, objects = LostJobs(), by_key(*groups)
    of_jobs = {ref_of(OTHER).key: [OTHER], ref_of(jobs[0]).key: [OTHER] if pods else []}
    for now in (100.0, 100.0 + seconds):
        lost.observe(by_key(*jobs), of_jobs, objects, now)
    return lost.message(jobs[0], 100.0 + seconds)


@pytest.mark.parametrize(
    ("jobs", "groups", "is_lost"),
    [
        pytest.param([BARE, OTHER], [], True, id="no status"),
        pytest.param([LET_IN, OTHER], [group(LET_IN, "Inqueue")], True, id="no pods"),
        pytest.param([LET_IN, OTHER], [group(LET_IN, "Pending")], False, id="not admitted"),
        pytest.param([LET_IN, OTHER], [], True, id="no group"),
        pytest.param([job("job", "Aborted"), OTHER], [group(LET_IN, "Inqueue")], False, id="aborted"),
        pytest.param([job("job", "", deletionTimestamp=LATE), OTHER], [], False, id="leaving"),
        pytest.param([BARE], [], False, id="nothing else works"),
        pytest.param([job("job", "", LATE), job("other", "Running", EARLY)], [], False, id="others before"),
    ],
)
def test_a_job_is_lost_when_it_is_owed_something(jobs: list[Object], groups: list[Object], is_lost: bool) -> None:
    assert bool(message_after(TIMES.lost, jobs, *groups)) == is_lost
    assert not message_after(TIMES.lost - 1, jobs, *groups)
    assert not message_after(TIMES.longest_lost, jobs, *groups, pods=True)


def test_a_job_that_has_started_is_kept_without_its_pod_group() -> None:
    lost, jobs = LostJobs(), by_key(LET_IN, OTHER)
    for now in (0.0, TIMES.longest_lost):
        lost.observe(jobs, {ref_of(OTHER).key: [OTHER]}, {}, now, started=jobs)
    assert not lost.message(LET_IN, TIMES.longest_lost)


def test_a_job_alone_is_lost_after_a_longer_time() -> None:
    assert not message_after(4 * TIMES.lost, [BARE])
    assert message_after(5 * TIMES.lost, [BARE])


def test_a_job_that_is_lost_again_waits_twice_as_long() -> None:
    lost, key = LostJobs(), ref_of(BARE).key
    for count in range(3):
        again = job("job", phase="", uid=f"uid-{count}")
        patience, now = TIMES.lost * 2**count, 1000.0 * count
        for at in (now, now + patience - 1, now + patience):
            lost.observe(by_key(again, OTHER), {}, {}, at)
            assert bool(lost.message(again, at)) == (at == now + patience)
        lost.record_repeat(key)
    lost.observe(by_key(again, OTHER), {key: [OTHER]}, {}, 9000.0)
    assert lost.repeats == {}, "it has pods"


def test_a_job_that_was_made_again_and_gets_no_pods_keeps_no_room_until_it_has_some() -> None:
    """A ResourceQuota refused its pods: it kept the nodes that it was to get from all others, and nothing said so."""
    lost, key, groups = LostJobs(), ref_of(LET_IN).key, by_key(group(LET_IN, "Inqueue"))
    one = [LET_IN]
    for repeats, pods, jobs in ((0, [], one), (1, [], one), (2, [], []), (2, [], one), (2, [OTHER], one)):
        if repeats > lost.repeats.get(key, 0):
            lost.record_repeat(key)
        lost.observe(by_key(*jobs), {key: pods}, groups, 100.0)
        is_refused = repeats > 0 and not pods and bool(jobs)
        assert lost.refused_jobs.keys() == ({key} if is_refused else set()), "one that is not there is to be made again"
    assert lost.repeats == {}


@pytest.mark.parametrize(
    ("phases", "counts", "started", "given_up"),
    [
        (["Pending", "Terminating", "Terminated"], {}, False, True),
        (["Pending", "Failed"], {}, False, True),
        (["Pending", "Terminated"], {}, True, False),
        (["Pending", "Running", "Terminated"], {}, False, False),
        (["Pending", "Failed"], {"failed": 1}, False, False),
        (["Pending", "Completed"], {}, False, False),
        (["Pending", "Aborted"], {}, False, False),
    ],
)
def test_a_job_that_the_controller_ends_without_a_pod_is_made_again(
    phases: list[str], counts: Object, started: bool, given_up: bool
) -> None:
    """A ResourceQuota refused its pods for a minute: it was terminated, and counted as a run that is over."""
    ended, lost = job("job", phases[-1]), LostJobs()
    ended["status"] |= {"conditions": [{"status": phase} for phase in phases], **counts}
    for now in (100.0, 100.0 + TIMES.lost):
        lost.observe(by_key(ended), {}, {}, now, by_key(ended) if started else ())
        assert lost.refused_jobs.keys() == (by_key(ended).keys() if given_up else set())
    assert bool(lost.message(ended, 100.0 + TIMES.lost)) == given_up, "surely, though no other job is served"


def quota(used: int, hard: int = 4, **spec: Any) -> Object:
    made = live("v1", "ResourceQuota", "quota")
    limits = {"requests.nvidia.com/gpu": str(hard), "limits.cpu": "0"}
    used_amounts = {"requests.nvidia.com/gpu": str(used)}
    return {**made, "spec": {"hard": limits, **spec}, "status": {"hard": limits, "used": used_amounts}}


@pytest.mark.parametrize(
    ("before", "after", "is_due"),
    [
        pytest.param([quota(4)], [quota(0)], True, id="others have ended"),
        pytest.param([quota(4)], [quota(4, hard=8)], True, id="raised"),
        pytest.param([quota(4)], [], True, id="deleted"),
        pytest.param([quota(4)], [quota(1)], False, id="not room enough"),
        pytest.param([quota(0)], [quota(0)], False, id="something else refuses the pods"),
        pytest.param([quota(4, scopes=["BestEffort"])], [quota(0)], False, id="perhaps for other pods"),
    ],
)
def test_a_job_that_was_given_up_is_made_again_once_its_quotas_have_room(
    before: list[Object], after: list[Object], is_due: bool
) -> None:
    """It waited on the old schedule, ten minutes at last."""
    pod = {"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "2"}}}]}
    ended, lost = job("job", "Failed"), LostJobs()
    ended["spec"] = {"tasks": [{"name": "t", "replicas": 2, "template": {"spec": pod}}]}
    ended["status"]["conditions"] = [{"status": phase} for phase in ("Pending", "Failed")]
    for _ in range(6):
        lost.record_repeat(ref_of(ended).key)
    for now, quotas in ((100.0, before), (100.0 + TIMES.lost, before)):
        lost.observe(by_key(ended), {}, {}, now, (), quotas)
        assert not lost.message(ended, now)
    lost.observe(by_key(ended), {}, {}, 100.0 + TIMES.lost, (), after)
    assert bool(lost.message(ended, 100.0 + TIMES.lost)) == is_due
    lost.observe(by_key(ended), {}, {}, 100.0 + TIMES.lost, (), [quota(4)])
    assert not lost.message(ended, 100.0 + TIMES.lost), "others were faster"


@cache
def wave_group(name: str) -> Object:
    return group(job(name), "Pending")


@cache
def wave_job(name: str, is_served: bool, second: int) -> Object:
    return job(name, "Pending" if is_served else "", rfc3339(1_000_000 + second))


def lost_of_a_wave(seconds: int, vanished: set[int], per_second: int, later_every: int = 0) -> dict[str, int]:
    """Name -> when it counted as lost, of 200 jobs that are made within 40 s; the controller serves so many a second,
    in no order, and never those that have vanished. later_every: seconds between further jobs, each served at once."""
    lost, served, found = LostJobs(), set[int](), dict[str, int]()
    for now in range(seconds):
        there = [at for at in range(200) if at / 5 <= now]
        waiting = [at for at in there if at not in served | vanished]
        served.update(sorted(waiting, key=lambda at: at * 77 % 200)[:per_second])
        wave = [wave_job(f"g{at}", at in served, at // 5) for at in there]
        later = range(0, now + 1, later_every) if later_every else ()
        wave += [wave_job(f"later-{made}", made < now, made) for made in later]
        groups = [wave_group(name_of(each)) for each in wave if each["status"]]
        lost.observe(by_key(*wave), {}, by_key(*groups), float(now))
        for each in wave:
            if lost.message(each, float(now)):
                found.setdefault(each["metadata"]["name"], now)
    return found


def test_a_controller_that_is_slow_has_lost_nothing() -> None:
    """35 of 200 jobs were deleted and made again, which made the controller slower still: on a busy machine it served
    two a second, and not in their order."""
    assert lost_of_a_wave(400, vanished=set(), per_second=2) == {}
    assert lost_of_a_wave(60 + 100, vanished=set(), per_second=0) == {}, "many are waited for longer than one"


@pytest.mark.parametrize("later_every", [0, 10])
def test_a_job_that_is_lost_in_a_wave_is_found_when_the_others_are_served(later_every: int) -> None:
    """Also where others come all the time: the controller serves these at once."""
    found = lost_of_a_wave(400, vanished={7, 150}, per_second=2, later_every=later_every)
    assert found.keys() == {"g7", "g150"}
    latest = 200 / 2 + TIMES.cohort + TIMES.lost + 3 * TIMES.per_waiting_job
    assert all(TIMES.lost < at <= latest for at in found.values())


def test_the_names_of_many_deleted_jobs_stay_reserved_until_each_was_cleaned_up_once_more() -> None:
    few = {"Job.batch.volcano.sh/default/a": (0.0, 5.0)}
    assert DepartedJobs(times=few).reservations() == {next(iter(few)): 10.0 + TIMES.cleanup_margin}
    many = {f"Job.batch.volcano.sh/default/{at}": (5.0, 5.0) for at in range(200)}
    assert set(DepartedJobs(times=many).reservations().values()) == {25.0 + TIMES.cleanup_margin}
    others = {key.replace("Job.batch.volcano.sh", "Job.batch"): times for key, times in many.items()}
    assert set(DepartedJobs(times=others).reservations().values()) == {5.0 + TIMES.cleanup_margin}


def test_names_whose_reservation_is_shortened_into_the_past_are_free_in_the_same_look() -> None:
    """A second wave was reserved on account of the first as well. When that was free, so was the second: its end was in
    the past, which wakes no pass, and its jobs waited for one that came by chance."""
    gone = {f"Job.batch.volcano.sh/default/{at}": (0.0 if at < 300 else 14.0) for at in range(600)}
    departed = DepartedJobs(times={key: (at, at) for key, at in gone.items()})
    departed.observe((), 60.0)
    assert len(departed.times) == 600
    departed.observe((), 60.0 + TIMES.cleanup_margin)
    assert not departed.times
