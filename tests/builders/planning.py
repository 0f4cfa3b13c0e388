"""The planning part alone, with stand-ins for git, the process that compiles and the thread that asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, cast

from compiler.repository.tree import Repository
from reconciler.changes.desired import DesiredManifests
from reconciler.changes.results import Condition
from reconciler.cluster.objects import Object, Ref
from reconciler.git.mirror import BranchHead
from reconciler.git.process import GitError
from reconciler.inventory.store import Inventory
from reconciler.observation.culprits import Culprit
from reconciler.observation.observe import Observation, Seen
from reconciler.planning.branch import Branch, Target
from reconciler.planning.candidate import Candidacy
from reconciler.planning.cluster_copy import PlanCopy
from reconciler.planning.compile.process import CompileRequest
from reconciler.planning.controller import PlanningGiven, PlanningPart
from reconciler.planning.dry_run import DryRun, Question, Refusal
from reconciler.planning.namespace_use import NamespaceUse
from reconciler.planning.snapshot import CompileBreakdown, Snapshot
from reconciler.planning.verdict import Verdict
from reconciler.timings import TIMINGS, DryRunTimings
from tests.builders.fake_cluster import FakeCluster

EMPTY = Repository({}, {}, ())
READABLE = frozenset({"Job.batch.volcano.sh", "Queue.scheduling.volcano.sh", "Pod", "ConfigMap", "ResourceQuota"})


@dataclass
class Clone:
    """Stands in for the poller and the mirror. follows: whether any commit descends from any other. pokes: how often a
    fetch was asked for."""

    head: BranchHead
    follows: bool = True
    fetched_at: float = inf
    pokes: int = 0

    def head_now(self) -> BranchHead:
        return self.head

    def slow_at(self) -> float:
        return inf

    def poke(self) -> None:
        self.pokes += 1

    def is_ancestor(self, older: str, newer: str) -> bool:
        return self.follows

    def read_tree(self, commit: str) -> Repository:
        raise GitError(f"commit {commit} is not in the clone")


@dataclass
class Clocked:
    """Stands in for the child process: keeps what it was asked, and answers when told."""

    asked: list[CompileRequest] = field(default_factory=list)
    told: list[CompileRequest] = field(default_factory=list)
    answer: Snapshot | CompileBreakdown | None = None
    is_busy: bool = False

    def start_compile(self, request: CompileRequest) -> None:
        self.asked.append(request)
        self.is_busy = True

    def send_state(self, request: CompileRequest) -> None:
        self.told.append(request)

    def take_result(self) -> Snapshot | CompileBreakdown | None:
        answer, self.answer = self.answer, None
        self.is_busy = self.is_busy and answer is None
        return answer


@dataclass
class Asked:
    """Stands in for dry runs: keeps the questions of the last one, and answers when told."""

    questions: tuple[Question, ...] = ()
    result: tuple[Refusal, ...] | None = None
    is_busy: bool = False
    times: int = 0
    waits_for: str = ""
    timings: DryRunTimings = TIMINGS.dry_run

    def about(self, questions: Iterable[Question]) -> Asked:
        self.questions, self.result = tuple(questions), None
        return self

    def start(self) -> None:
        self.is_busy, self.times = True, self.times + 1

    def give_up(self) -> None:
        self.is_busy = False

    def delay(self) -> str:
        return self.waits_for if self.is_busy else ""

    def seconds_to_report(self) -> float | None:
        return 5.0 if self.is_busy and not self.waits_for else None


class PlanningWorld:
    """The part with a plan in force, of the commit of the inventory, and a head."""

    def __init__(
        self,
        in_force: Snapshot | None,
        head: str | BranchHead,
        commit: str = "",
        follows: bool = True,
        cluster: FakeCluster | None = None,
        tree: Repository | None = None,
    ) -> None:
        self.clone, self.compiler, self.asked = Clone(_head(head), follows), Clocked(), Asked()
        self.inventory = Inventory(commit=commit or (in_force.commit if in_force else ""))
        self.time, self.is_leading, self.others_led_until, self.wakes = 0.0, True, -inf, 0
        self.held_out: list[str] = []
        self.annotations: Mapping[str, str] = {}
        self.compiles: list[tuple[str, float, str]] = []
        self.use: Object | Exception | None = None
        self.use_reads: list[Ref] = []
        client = (cluster or FakeCluster()).client()
        self.part = PlanningPart(
            PlanningGiven(
                "test",
                "processes",
                lambda: self.time,
                lambda *row: self.compiles.append(row),
                self.wake,
                NamespaceUse(lambda ref: self.use_read(ref)),
                lambda culprits, reason: self.hold_out([*culprits], reason),
            ),
            Branch(
                cast("Any", self.clone),
                cast("Any", self.clone),
                lambda: self.annotations,
                self.remove_annotation,
                "gangplan-test-status",
            ),
            cast("Any", self.compiler),
            Candidacy(cast("Any", self.asked.about), DesiredManifests(client, "test")),
            PlanCopy(client, "gangplan-system", "test"),
            snapshot=in_force,
            tree=tree,
        )

    def wake(self) -> None:
        self.wakes += 1

    def remove_annotation(self, name: str, stays: Callable[[str], bool]) -> bool:
        kept = {key: value for key, value in self.annotations.items() if key != name or stays(value)}
        self.annotations = kept
        return True

    def hold_out(self, culprits: list[Culprit], reason: str) -> str:
        self.held_out += [key for key, _ in culprits]
        return culprits[0][0] if culprits else ""

    def use_read(self, ref: Ref) -> Object | None:
        """The ConfigMap of fairshare's numbers, as the cluster has it now."""
        self.use_reads.append(ref)
        if isinstance(self.use, Exception):
            raise self.use
        return self.use

    def seen(self, objects: Mapping[str, Object] | None = None, readable: frozenset[str] = READABLE) -> Seen:
        observation = Observation(objects or {}, readable)
        return Seen(
            self.time, self.time, self.is_leading, observation, self.inventory, others_led_until=self.others_led_until
        )

    def look(self, objects: Mapping[str, Object] | None = None, readable: frozenset[str] = READABLE) -> Target:
        """One look at the cluster."""
        seen = self.seen(objects, readable)
        return self.part.renew(seen, self.part.follow(seen), {}, (), is_free=True)

    def compiled(self, result: Snapshot | CompileBreakdown) -> Target:
        self.compiler.answer = result
        return self.look()

    def answers(self, *refused: str) -> Target:
        """The API server takes all but these."""
        questions = {question.ref.name: question for question in self.asked.questions}
        self.asked.result = tuple(Refusal(questions[name], "denied: no") for name in refused)
        self.asked.is_busy = False
        return self.look()

    def move_head(self, commit: str) -> None:
        self.clone.head = _head(commit)

    def verdict(self) -> Verdict:
        return self.part.verdict(self.look())

    def condition(self, kind: str) -> Condition:
        return next(each for each in self.verdict().conditions() if each.type == kind)

    def reasons(self) -> list[str]:
        """Of the events."""
        return [event.reason for event in self.verdict().events({})]

    def next_look(self) -> float | None:
        """Seconds until something is due."""
        seconds = (at - self.time for at in self.part.deadlines(self.time))
        return min((left for left in seconds if left > 0), default=None)


def refusals_of(dry_run: DryRun) -> tuple[Refusal, ...] | None:
    """Ask, and wait for the answers."""
    dry_run.start()
    assert dry_run.ended.wait(60)
    return dry_run.result


def _head(head: str | BranchHead) -> BranchHead:
    return BranchHead(head, EMPTY) if isinstance(head, str) else head
