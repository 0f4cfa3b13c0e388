"""A stream of small gangs that would keep a large one waiting for ever, plan after plan, while what runs ends one by
one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from solver import Problem, solve
from solver.problem import Gang, Placement
from solver.verify import verify
from tests.builders.problems import gang, nodes, problem, role, with_fields

NODES, SMALL_SECONDS = 4, (3, 5, 4, 7, 6)
PATIENCE, LONG = 10, 60


@dataclass
class Cluster:
    """Small gangs of one node each fill it, and one more of them waits at every moment than there are nodes.

    told: whether durations are known. promises: the times at which the large gang is to start, as plan after plan says.
    """

    told: bool
    patience: int
    now: int = 0
    born: int = 0
    waiting: dict[str, int] = field(default_factory=dict)
    runs: dict[str, tuple[int, tuple[Placement, ...]]] = field(default_factory=dict)
    started_at: int | None = None
    promises: list[int] = field(default_factory=list)

    def lasts(self, name: str) -> int:
        return SMALL_SECONDS[int(name[1:]) % len(SMALL_SECONDS)]

    def arrive(self) -> None:
        while len(self.waiting) <= NODES:
            self.waiting[f"s{self.born:03d}"] = self.now
            self.born += 1

    def world(self) -> Problem:
        names = sorted([*self.runs, *self.waiting])
        made = problem(
            nodes(NODES, gpu=8), gang("large", role(NODES, gpu=8)), *(gang(name, role(1, gpu=8)) for name in names)
        )
        return replace(made, gangs=tuple(self._at_this_time(each) for each in made.gangs))

    def _at_this_time(self, each: Gang) -> Gang:
        """The large gang is late past its patience, and once it was promised a start: that is how a promise is
        remembered."""
        if each.name == "large":
            return with_fields(
                each, overdue=self.now > self.patience or bool(self.promises), duration=5 if self.told else None
            )
        lasts = self.lasts(each.name) if self.told else None
        if each.name not in self.runs:
            return with_fields(each, duration=lasts)
        end, pods = self.runs[each.name]
        return with_fields(each, duration=lasts, ends_in=end - self.now if self.told else None, running=pods)

    def step(self) -> None:
        self.runs = {name: run for name, run in self.runs.items() if run[0] > self.now}
        self.arrive()
        world = self.world()
        made = solve(world)
        assert verify(world, made) == []
        for decision in made.decisions:
            name = world.gangs[decision.gang].name
            if decision.action == "start" and name == "large":
                self.started_at = self.now
            elif decision.action == "start":
                self.runs[name] = self.now + self.lasts(name), decision.placements
                del self.waiting[name]
        held = made.reservation
        if held is not None and held.starts_in is not None and world.gangs[held.gang].name == "large":
            self.promises.append(self.now + held.starts_in)
        self.now += 1

    def until(self, done: Callable[[], bool]) -> None:
        while not done():
            self.step()


def running_for(seconds: int, told: bool, patience: int) -> Cluster:
    """The cluster as it is once the large gang has started, or after that many seconds. Small gangs fill it before the
    large one comes."""
    cluster = Cluster(told, patience)
    for n in range(NODES):
        cluster.runs[f"s{n:03d}"] = cluster.lasts(f"s{n:03d}"), (Placement(0, n, 1),)
        cluster.born += 1
    cluster.until(lambda: cluster.started_at is not None or cluster.now >= seconds)
    return cluster


def test_without_patience_and_durations_the_large_gang_starves() -> None:
    assert running_for(LONG, told=False, patience=LONG).started_at is None


def test_an_overdue_gang_starts_once_the_gangs_running_then_have_ended() -> None:
    cluster = running_for(LONG, told=False, patience=PATIENCE)
    assert cluster.started_at is not None
    assert PATIENCE < cluster.started_at <= PATIENCE + 1 + max(SMALL_SECONDS)


def test_with_durations_it_starts_by_the_time_first_promised() -> None:
    cluster = running_for(LONG, told=True, patience=LONG)
    assert cluster.promises
    assert cluster.started_at is not None
    assert cluster.started_at <= cluster.promises[0] == max(SMALL_SECONDS[:NODES])
    assert cluster.promises == sorted(cluster.promises, reverse=True)  # no promise is moved back
    assert cluster.born > NODES + len(cluster.waiting)  # small ones ran meanwhile
