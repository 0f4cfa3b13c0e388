"""A plan is made anew when one of its moments has come, and not otherwise; a plan that is refused leaves the last
one."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from reconciler.cluster.client import Forbidden, Retry
from reconciler.cluster.objects import Object
from reconciler.planning.branch import Target
from reconciler.planning.snapshot import CompileBreakdown, RepositorySettings, Snapshot
from reconciler.timings import TIMINGS
from tests.builders.live import VOLCANO, live, live_pod
from tests.builders.planning import PlanningWorld
from tests.builders.pods import entry

COMMIT = "c0ffee"
GOOD = Snapshot(COMMIT, True, plan={"digest": "sha256:1", "gangs": []}, moments=(100, 200, 300))


class World(PlanningWorld):
    def answered(self, snapshot: Snapshot) -> Target:
        """The child, as it does, leaves out the moments that had come when it was asked."""
        asked = self.compiler.asked[-1].clock or 0
        return self.compiled(replace(snapshot, moments=tuple(at for at in snapshot.moments if at > asked)))

    def asked_at(self) -> list[int | None]:
        return [request.clock for request in self.compiler.asked]


@pytest.fixture
def world() -> World:
    made = World(None, COMMIT, COMMIT)
    made.look()
    made.answered(GOOD)
    made.compiler.asked.clear()
    made.look()
    return made


@pytest.mark.parametrize(
    ("steps", "asked_at"),
    [
        ([(0.0, False), (50.0, False), (99.9, False)], []),
        ([(107.3, False), (107.3, False), (107.3, True), (199.0, False)], [107]),
        ([(250.0, False), (250.0, True)], [250]),
        ([(120.0, False), (205.0, True)], [120, 205]),
        ([(120.0, False), (120.0, True), (20.0, False)], [120]),
    ],
    ids=["a quiet cluster", "once", "moments slept through", "one that comes meanwhile", "a clock that was put back"],
)
def test_each_moment_is_planned_once(world: World, steps: list[tuple[float, bool]], asked_at: list[int]) -> None:
    """steps: the time, and whether the child has answered."""
    for world.time, is_answered in steps:
        target = world.answered(GOOD) if is_answered else world.look()
    assert world.asked_at() == asked_at
    assert target.is_fresh == (not world.compiler.is_busy)


def test_after_a_compile_the_next_of_the_same_commit_waits_as_long_as_that_took(world: World) -> None:
    """Nodes that flapped kept a core busy with plans."""
    world.time = 101.0
    world.look()
    world.time = 104.0
    world.answered(GOOD)
    seen, node = [], {"Node//n": live("v1", "Node", "n")}
    for world.time in (104.5, 106.5, 107.0):
        assert not world.look(node).is_fresh
        seen.append((len(world.compiler.asked), world.next_look()))
    assert seen[:2] == [(1, 2.5), (1, 0.5)]
    assert len(world.compiler.asked) == 2


def test_a_plan_is_made_with_the_places_of_the_plan_in_force(world: World) -> None:
    """Of the jobs that this one starts or keeps; those that wait have none."""
    pods = {"worker": {"n2": 3, "n1": 5}}
    started, kept, waiting = (live(VOLCANO, "Job", name) for name in "bac")
    gangs = [entry(started, "start", pods), entry(kept, "keep", {"worker": {"n0": 8}}), entry(waiting, "wait", {})]
    world.time = 100
    world.look()
    world.answered(replace(GOOD, plan={"digest": "sha256:1", "gangs": gangs}))
    world.time = 200
    world.look()
    before, after = world.compiler.asked
    assert before.former.places == []
    assert after.former.places == [(("default", "a", "Job"), {"worker": {"n0": 8}}), (("default", "b", "Job"), pods)]


def test_the_worker_is_told_of_the_cluster_by_the_leader_once_that_is_quiet(world: World) -> None:
    pod, seen = live_pod("p"), []
    for world.is_leading, world.time in ((False, 1.0), (False, 10.0), (True, 10.0), (True, 20.0)):
        assert world.look({"Pod/default/p": pod}).is_fresh
        seen.append(len(world.compiler.told))
    assert seen == [0, 0, 1, 1]
    (request,) = world.compiler.told
    assert (request.commit, [item["kind"] for item in request.state]) == (COMMIT, ["Pod"])
    world.time = 21.0
    world.look()
    assert world.next_look() == TIMINGS.compile.quiet
    assert not world.compiler.asked


def test_the_next_pass_comes_with_the_next_moment(world: World) -> None:
    world.time = 99.0
    assert world.next_look() == 1.0
    world.time = 350.0
    assert world.next_look() is None


# ---- what namespaces used (Volcano's plugin fairshare)

PLACE = "volcano-system/fairshare-usage-state"
FAIR = replace(GOOD, settings=RepositorySettings(use_state=PLACE))


def use(number: int) -> Object:
    return live("v1", "ConfigMap", "fairshare-usage-state", namespace="volcano-system", labels={"is": str(number)})


@pytest.fixture
def fair() -> World:
    """A repository whose plans ask for what namespaces used; the first answer has come."""
    made = World(None, COMMIT, COMMIT)
    made.use = use(1)
    made.look()
    made.answered(FAIR)
    return made


def test_the_first_answer_that_asks_for_the_numbers_is_not_used_and_the_next_compile_has_them(fair: World) -> None:
    assert fair.part.snapshot is None
    assert [request.state for request in fair.compiler.asked] == [[], [use(1)]]
    assert [(ref.namespace, ref.name) for ref in fair.use_reads] == [("volcano-system", "fairshare-usage-state")]
    fair.answered(FAIR)
    assert fair.part.snapshot == FAIR
    assert [result for _, _, result in fair.compiles] == ["repeated", "good"]


def test_a_change_of_the_numbers_alone_calls_for_no_plan_and_the_next_one_has_the_new_ones(fair: World) -> None:
    fair.answered(FAIR)
    reads = len(fair.use_reads)
    for number in range(2, 6):
        fair.use, fair.time = use(number), 10.0 * number
        assert fair.look().is_fresh
    assert (len(fair.compiler.asked), len(fair.use_reads)) == (2, reads)
    fair.time = 107.0
    fair.look()
    assert [request.state for request in fair.compiler.asked[2:]] == [[use(5)]]


def test_a_repository_without_fairshare_reads_nothing(world: World) -> None:
    world.time = 107.0
    world.look()
    assert world.use_reads == []


def test_without_an_answer_the_last_numbers_count_and_without_any_the_compile_waits(fair: World) -> None:
    fair.answered(FAIR)
    fair.use, fair.time = Retry("no answer"), 107.0
    fair.look()
    assert fair.part.problems == ()
    assert fair.compiler.asked[-1].state == [use(1)]
    first = World(None, COMMIT, COMMIT)
    first.use = Retry("no answer")
    first.look()
    first.answered(FAIR)
    assert (len(first.compiler.asked), first.part.problems) == (1, ("what namespaces used cannot be read: no answer",))
    first.use = None
    first.look()
    assert first.part.problems == ()
    assert [request.state for request in first.compiler.asked] == [[], []]


def test_without_permission_nothing_counts_as_used_and_that_is_reported() -> None:
    world = World(None, COMMIT, COMMIT)
    world.use = Forbidden("denied")
    world.look()
    world.answered(FAIR)
    world.answered(FAIR)
    assert world.part.snapshot == FAIR
    (problem,) = world.part.problems
    assert problem == "what namespaces used cannot be read, so that nothing counts as used: denied"


# ---- the release of Volcano that runs


def scheduler(tag: str, namespace: str = "volcano-system") -> dict[str, Object]:
    image = f"docker.io/volcanosh/vc-scheduler:{tag}"
    pod = live("v1", "Pod", "volcano-scheduler-0", namespace=namespace)
    return {f"Pod/{namespace}/volcano-scheduler-0": {**pod, "spec": {"containers": [{"image": image}]}}}


@pytest.mark.parametrize(
    ("objects", "names", "is_fresh"),
    [
        (scheduler("v1.16.0"), False, False),
        (scheduler("v1.15.2"), False, True),
        ({}, False, True),  # it is replaced, and the release that was seen last counts
        (scheduler("v1.16.0"), True, True),
        (scheduler("v1.16.0", "elsewhere"), False, True),
    ],
)
def test_another_release_calls_for_a_plan_where_the_cluster_names_none(
    objects: dict[str, Object], names: bool, is_fresh: bool
) -> None:
    world = World(None, COMMIT, COMMIT)
    world.look(scheduler("v1.15.2"))
    settings = RepositorySettings(volcano="1.15.2", names_volcano=names)
    world.compiler.answer = replace(GOOD, moments=(), settings=settings)
    assert world.look(scheduler("v1.15.2")).is_fresh
    assert world.look(objects).is_fresh == is_fresh
    asked = world.compiler.asked[1:]
    assert [request.former.volcano for request in asked] == ([] if is_fresh else ["1.15.2"])


@pytest.mark.parametrize("names", [False, True])
def test_what_the_release_lacks_is_judged_again_where_the_cluster_names_none(names: bool) -> None:
    newer = {**ERROR, "code": "GP436"}, {**ERROR, "code": "GP302"}
    world = World(None, COMMIT, COMMIT)
    world.look()
    world.compiled(Snapshot(COMMIT, ok=False, diagnostics=newer, settings=RepositorySettings(names_volcano=names)))
    for world.time in (1.0, TIMINGS.planning.plan_retry + 1):
        world.look()
    assert len(world.compiler.asked) == (1 if names else 2)


# ---- a plan that is refused


ERROR = {"code": "GP502", "severity": "error", "file": "c.yaml", "line": 1, "message": "capacity: node n"}
REFUSED = Snapshot(COMMIT, ok=False, diagnostics=(ERROR,))


def test_a_refused_plan_leaves_the_last_one_in_force_and_says_so(world: World) -> None:
    world.time = 120.0
    world.look()
    target = world.answered(REFUSED)
    assert target.snapshot is not None
    assert (target.commit, target.snapshot.ok, target.snapshot.moments) == (COMMIT, True, GOOD.moments)
    compiled = world.condition("Compiled")
    assert (compiled.status, compiled.reason) == (False, "PlanRefused")
    assert "the last plan stays in force" in compiled.message
    assert "c.yaml:1: GP502" in compiled.message
    assert world.reasons() == ["PlanRefused"]
    assert [result for _, _, result in world.compiles] == ["good", "rejected"]


def test_what_was_refused_is_not_asked_again_until_something_happens(world: World) -> None:
    world.time = 120.0
    world.look()
    world.answered(REFUSED)
    for world.time in (121.0, 180.0, 199.0):
        world.look()
    assert world.asked_at() == [120]
    world.time = 201.0
    world.look()
    assert world.asked_at() == [120, 201]
    assert world.answered(replace(GOOD, moments=(300,))).is_fresh
    assert world.condition("Compiled").status


# ---- a compile that breaks down


def test_a_compile_that_breaks_down_is_not_held_against_the_commit_and_is_tried_again(world: World) -> None:
    """It was told as CommitRejected, as if the commit were bad."""
    world.time = 101.0
    world.look()
    world.compiled(replace(GOOD, moments=()))
    world.compiler.asked.clear()
    world.move_head("beef")
    times = []
    for _ in range(7):
        world.look()
        assert world.compiler.asked[-1].commit == "beef"
        times.append(world.time)
        target = world.compiled(CompileBreakdown("it ended by SIGKILL"))
        world.time += world.next_look() or 0.0
    assert [after - before for before, after in pairwise(times)] == [10, 20, 40, 80, 160, 300]
    assert target.commit == COMMIT, "the commit in force goes on"
    verdict = world.part.verdict(target)
    found = {each.type: each for each in verdict.conditions()}
    assert (found["Compiled"].status, found["Compiled"].reason) == (False, "CompileFailed")
    assert "7 times in a row, which says nothing about the commit" in found["Compiled"].message
    assert found["CompilerFailed"].status
    assert [event.reason for event in verdict.events({})] == ["CompileFailed"]
    assert not verdict.diagnostics
    world.look()
    world.compiled(replace(GOOD, commit="beef"))
    assert not world.condition("CompilerFailed").status
    assert world.condition("Compiled").status


def test_a_compile_that_fails_on_a_live_object_is_made_again_without_it_at_once() -> None:
    world = World(GOOD, "beef")
    world.look()
    world.compiled(CompileBreakdown("it ended with 1: KeyError", [("Pod/default/odd", "u")]))
    assert world.held_out == ["Pod/default/odd"]
    world.look()
    assert [request.commit for request in world.compiler.asked] == ["beef", "beef"]


def test_a_new_leader_follows_no_head_that_was_fetched_before_it_led() -> None:
    """Seen once: a permitted force push had set the branch back, and the successor, whose clone was older, went forth
    again to the commit that was taken back."""
    world = PlanningWorld(Snapshot("set-back", True, plan={"gangs": []}), "taken-back")
    world.clone.fetched_at, world.others_led_until = 5.0, 10.0
    assert [world.look().commit for _ in range(3)] == ["set-back"] * 3
    assert (world.clone.pokes, world.compiler.asked, world.part.is_busy) == (1, [], True)
    world.clone.head = replace(world.clone.head, problem="no route")
    assert not world.part.is_busy, "nobody knows for how long"
    world.clone.fetched_at = 11.0
    assert world.look().commit == "taken-back"
