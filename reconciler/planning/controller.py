"""Phase 2 of a pass: which commit is to be in force, and a plan for it.

The compile runs in a child process, not in the loop; until it answers, the last good plan stays in force.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import TypeVar

from compiler.repository.tree import Repository
from compiler.session import Session
from compiler.specs.gang_spec import JobKey
from reconciler.changes.planned import PlannedRuns
from reconciler.git.process import GitError
from reconciler.inventory.store import Inventory
from reconciler.observation.culprits import Culprit
from reconciler.observation.observe import Observation, Seen
from reconciler.part import Part
from reconciler.planning.branch import Branch, Target
from reconciler.planning.candidate import Candidacy, Candidate, are_kinds_seen, refusal_diagnostic, refused_change
from reconciler.planning.cluster_copy import KeptPlan, PlanCopy
from reconciler.planning.compile.process import CompileProcess, CompileRequest, WorkerState
from reconciler.planning.dry_run import Refusal
from reconciler.planning.fingerprint import Fingerprint, fingerprint_inputs, fingerprint_of, state_objects
from reconciler.planning.namespace_use import NamespaceUse
from reconciler.planning.past_runs import past_runs
from reconciler.planning.snapshot import CompileBreakdown, FormerPlan, Snapshot
from reconciler.planning.verdict import Rejection, Verdict
from reconciler.threads.heartbeat import Heartbeat
from reconciler.threads.memo import drop_other_keys
from reconciler.threads.rest import doubled
from reconciler.timings import TIMINGS, PlanningTimings

Value = TypeVar("Value")

log = logging.getLogger(__name__)

PLAN_CODES = frozenset({"GP501", "GP502"})
"""Diagnostics that rest on what the cluster holds as well; those of files stay with their commit."""
RELEASE_CODE = "GP436"
"""A diagnostic that rests on the release of Volcano, which is the cluster's where the repository names none."""


@dataclass(frozen=True, slots=True)
class PlanningGiven:
    """executor: as in `compiler.cli.executor.open_executor`. on_compile: called at the end of each compile with its
    commit, its seconds and its result. wake: requests a pass. use: the usage of namespaces, for each compile. hold_out:
    as `InformerSet.hold_out`."""

    cluster: str
    executor: str
    wall_clock: Callable[[], float]
    on_compile: Callable[[str, float, str], None]
    wake: Callable[[], None]
    use: NamespaceUse
    hold_out: Callable[[Iterable[Culprit], str], str] = lambda culprits, reason: ""
    timings: PlanningTimings = TIMINGS.planning


@dataclass(frozen=True, slots=True)
class RunningCompile:
    """The inputs of a running compile, and its begin (on the clock). due_moment: the moment that had passed. tree: the
    commit's files."""

    commit: str
    observation: Observation
    finished_jobs: frozenset[str]
    due_moment: int | None
    started_at: float
    tree: Repository


@dataclass(slots=True)
class PlanningPart(Part):
    """snapshot: the plan in force. tree: the files of its commit, if known. base_fingerprint: its inputs when it was
    made. session: keeps its current inputs. rejections: by commit."""

    given: PlanningGiven
    branch: Branch
    compiler: CompileProcess
    candidacy: Candidacy
    copy: PlanCopy
    snapshot: Snapshot | None = None
    tree: Repository | None = None
    base_fingerprint: Fingerprint | None = None
    session: Session = field(default_factory=Session)
    running_compile: RunningCompile | None = None
    worker_state: WorkerState = field(default_factory=WorkerState)
    rejections: dict[str, Rejection] = field(default_factory=dict)

    def start(self) -> None:
        self.compiler.warm_up()
        self.branch.poller.start()

    def stop(self) -> None:
        self.branch.poller.stop()
        self.compiler.stop()
        self.candidacy.drop()

    def heartbeats(self) -> tuple[Heartbeat, ...]:
        compiler, dry_run = self.compiler, self.candidacy.dry_run
        asking = () if dry_run is None else (dry_run.heartbeat,)
        beats = self.branch.poller.heartbeat, compiler.heartbeat, compiler.sending_heartbeat, self.copy.heartbeat
        return *beats, *asking

    # --- what others ask

    @property
    def revision(self) -> str:
        """Return the commit whose plan is in force, empty for none."""
        return self.snapshot.commit if self.snapshot else ""

    @property
    def is_busy(self) -> bool:
        """Return whether a plan is being made, or waits for the API server's answer, or for git's."""
        return self.compiler.is_busy or self.candidacy.candidate is not None or self.branch.awaits_fetch

    @property
    def problems(self) -> tuple[str, ...]:
        """Return what could not be read for the last compile, or for the next one."""
        return tuple(filter(None, [self.given.use.problem]))

    @property
    def kinds(self) -> frozenset[tuple[str, str]]:
        """(apiVersion, kind) of what the plan in force holds, and the one that may soon be."""
        return frozenset().union(*(snapshot.kinds for snapshot in self._snapshots))

    @property
    def job_kinds(self) -> frozenset[str]:
        """Return group kinds of what runs once in these plans."""
        return frozenset(key.partition("/")[0] for snapshot in self._snapshots for key in snapshot.jobs)

    @property
    def _snapshots(self) -> Iterator[Snapshot]:
        candidate = self.candidacy.candidate
        return filter(None, (self.snapshot, candidate.snapshot if candidate else None))

    def runs(self, inventory: Inventory, reruns: Mapping[str, tuple[str, int]]) -> PlannedRuns:
        """Return which run of each job is to be now, by the plan in force."""
        jobs = self.snapshot.jobs if self.snapshot else {}
        over = {key: inventory.runs[key].digest for key in jobs.keys() & inventory.runs.keys()}
        return PlannedRuns(jobs, reruns, over)

    def verdict(self, target: Target) -> Verdict:
        """Return the report on the newest commit."""
        head = self.branch.head
        found = {name: self.rejections[name] for name in {head.commit, target.commit} & self.rejections.keys()}
        return Verdict(head, target, found, self.candidacy.unanswered_message())

    def deadlines(self, now: float) -> Iterator[float]:
        worker, retries = self.worker_state, (found.retry_at for found in self.rejections.values())
        slow_at = self.branch.poller.slow_at()
        yield from filter(isfinite, (worker.send_at(), worker.rested_at, slow_at, *retries))
        dry_run = self.candidacy.dry_run
        if dry_run is not None and (seconds := dry_run.seconds_to_report()) is not None:
            yield now + seconds
        wall_now = self.given.wall_clock()
        yield from (now + at - wall_now for at in (self.snapshot.moments if self.snapshot else ()))

    def keep_copy(self, inventory: Inventory, now: float) -> None:
        """Keep a copy of the plan in force and its files in the cluster, and no permission to rewrite that was used."""
        if self.snapshot is not None and inventory.commit == self.snapshot.commit:
            self.branch.settle_permission(inventory.commit)
            if self.tree is not None:
                self.copy.offer(KeptPlan(self.snapshot, self.tree), now)

    # --- the plan of another process or replica

    def take_up(self, inventory: Inventory) -> None:
        """Go on from an inventory that was just read, with the plan of the last process if its commit is still in
        force. Raises ApiError."""
        self._give_up_superseded(inventory)
        copy = self.copy.read() if self.snapshot is None else None
        if copy is not None and inventory.commit in ("", copy.snapshot.commit):
            log.info("the plan in force is taken from the cluster", extra={"commit": copy.snapshot.commit})
            inventory.bring_into_force(copy.snapshot.commit)
            self.snapshot, self.tree = copy.snapshot, copy.tree
            self.given.use.suffices(copy.snapshot)

    def _give_up_superseded(self, inventory: Inventory) -> None:
        """Forget the plan of another commit than the one that is in force, by whichever replica: who leads again before
        it has heard of that commit does not go back, nor forth where the branch was set back."""
        if self.snapshot is not None and inventory.commit not in ("", self.snapshot.commit):
            log.info("the plan is superseded", extra={"commit": self.snapshot.commit, "in_force": inventory.commit})
            self.snapshot = self.base_fingerprint = self.tree = None

    # --- which plan is in force

    def follow(self, seen: Seen) -> Target:
        """Take the answers that have arrived; return the commit that is to be in force, and the plan that is."""
        self._take_result(seen)
        aim = self.branch.aim(self._in_force(seen), seen.others_led_until)
        in_force, rejection = self._in_force(seen), self.rejections.get(aim.commit)
        is_put_off = rejection is not None and aim.commit != in_force and seen.now < rejection.retry_at
        commit = self._settle(seen, in_force if is_put_off else aim.commit)
        if self.snapshot is not None and self.candidacy.unanswered_message():
            commit = self.snapshot.commit  # it is planned again meanwhile, where nodes or jobs change
        drop_other_keys(self.rejections, {self.branch.head.commit, commit, self._in_force(seen)})
        return replace(aim, commit=commit, snapshot=self.snapshot)

    def _in_force(self, seen: Seen) -> str:
        return self.snapshot.commit if self.snapshot else seen.inventory.commit

    def _settle(self, seen: Seen, target: str) -> str:
        """Put the candidate in force, reject it, or drop it for a newer commit; the commit that is to be in force. Only
        a leader asks about it; another replica follows the inventory."""
        if (candidate := self.candidacy.candidate) is None:
            return target
        commit, is_in_force = candidate.snapshot.commit, candidate.snapshot.commit == seen.inventory.commit
        if not is_in_force and commit != target:
            self.candidacy.drop()
            return target
        refusals: tuple[Refusal, ...] | None = ()
        if not is_in_force:
            refusals = self.candidacy.ask(seen, self.snapshot) if seen.is_leading else None
        if not are_kinds_seen(candidate.snapshot, seen.observation):
            self.given.wake()  # the next pass looks at them
        elif refusals:
            self._refuse(seen, candidate, refusals)
            return self._in_force(seen)
        elif refusals is not None:
            self._put_in_force(candidate)
        return target

    def _put_in_force(self, candidate: Candidate) -> None:
        """Replace the plan in force. A candidate of another commit keeps waiting."""
        self.snapshot, self.tree = candidate.snapshot, candidate.tree
        self.base_fingerprint = candidate.fingerprint
        self.rejections.pop(candidate.snapshot.commit, None)
        waiting = self.candidacy.candidate
        if waiting is not None and waiting.snapshot.commit == candidate.snapshot.commit:
            self.candidacy.drop()

    def _refuse(self, seen: Seen, candidate: Candidate, refusals: tuple[Refusal, ...]) -> None:
        timings, commit, now = self.given.timings, candidate.snapshot.commit, seen.now
        former = self.rejections.get(commit)
        attempts = 1 + (former.attempts if former is not None and former.refusals else 0)
        pause = doubled(timings.refusal_retry, attempts - 1, timings.longest_refusal_retry)
        entries = tuple(map(refusal_diagnostic, refusals))
        snapshot = replace(candidate.snapshot, ok=False, diagnostics=(*entries, *candidate.snapshot.diagnostics))
        held = tuple(refused_change(refusal, seen.observation) for refusal in refusals)
        self.rejections[commit] = Rejection(snapshot, now, now + pause, (None, None), attempts, held)
        self.candidacy.drop()
        log.warning("commit refused", extra={"commit": commit, "reason": entries[0]["message"]})

    # --- the results of compiles

    def _take_result(self, seen: Seen) -> None:
        running = self.running_compile
        if running is None or (result := self.compiler.take_result()) is None:
            return
        self.running_compile = None
        kind = "broken"
        if isinstance(result, CompileBreakdown):
            self._record_breakdown(seen, running, result)
        elif result.ok and not self.given.use.suffices(result):
            kind = "repeated"
            self.given.wake()
        elif result.ok:
            kind = "good"
            self._offer(running, result)
        else:
            kind = "rejected"
            codes = {diagnostic["code"] for diagnostic in result.diagnostics if diagnostic["severity"] == "error"}
            rests_on_release = RELEASE_CODE in codes and not result.settings.names_volcano
            delay = self.given.timings.plan_retry if codes <= PLAN_CODES or rests_on_release else inf
            found = Rejection(result, seen.now, seen.now + delay, self._basis(running))
            self.rejections[running.commit] = found
            reason = found.first_error["message"] if found.first_error else "no plan"
            log.warning("commit rejected", extra={"commit": running.commit, "reason": reason})
        seconds = seen.now - running.started_at
        log.info("a compile has ended", extra={"commit": running.commit, "seconds": round(seconds, 3)})
        self.given.on_compile(running.commit, seconds, kind)
        self.worker_state.note_compiled(seconds, seen.now)

    def _offer(self, running: RunningCompile, result: Snapshot) -> None:
        """Take a good plan: one of the commit in force replaces the last one at once."""
        result = result.with_manifests_of(self.snapshot) if self.snapshot else result
        if (former := self.rejections.get(running.commit)) is not None and former.breakdown:
            del self.rejections[running.commit]
        fingerprint = self._fingerprint(running.observation, result, running.finished_jobs)
        candidate = Candidate(result, fingerprint, running.tree)
        if result.commit == self.revision:
            self._put_in_force(candidate)
        else:
            self.candidacy.offer(candidate)

    def _record_breakdown(self, seen: Seen, running: RunningCompile, result: CompileBreakdown) -> None:
        """Note a compile that gave no answer: nothing is held against its commit, and it is tried again."""
        former, now, timings = self.rejections.get(running.commit), seen.now, self.given.timings
        attempts = 1 + (former.attempts if former is not None and former.breakdown else 0)
        pause = doubled(timings.compile_retry, attempts - 1, timings.plan_retry)
        nothing, basis = Snapshot(running.commit, ok=False), self._basis(running)
        if self.given.hold_out(result.culprits, f"a compile failed on it ({result.message})"):
            pause, basis = 0.0, (None, None)
            self.given.wake()
        found = Rejection(nothing, now, now + pause, basis, attempts, breakdown=result.message)
        self.rejections[running.commit] = found
        log.warning("a compile broke down", extra={"commit": running.commit, "reason": result.message, "retry": pause})

    def _basis(self, running: RunningCompile) -> tuple[Fingerprint | None, int | None]:
        in_force = self.snapshot
        base = self._fingerprint(running.observation, in_force, running.finished_jobs) if in_force else None
        return base, running.due_moment

    # --- the next compile

    def renew(
        self,
        seen: Seen,
        target: Target,
        reruns: Mapping[str, tuple[str, int]],
        given_up: Collection[str],
        is_free: bool,
    ) -> Target:
        """Compile if the plan's inputs have changed, unless something else is awaited. Return the target with the state
        of its plan. given_up: jobs of which only another object can start. is_free: whether the watches show all
        writes."""
        runs = self.runs(seen.inventory, reruns)
        over = seen.inventory.finished_jobs(runs)
        current: Fingerprint | None = None
        if target.snapshot is not None:
            self.worker_state.note_seen(fingerprint_inputs(seen.observation, target.snapshot), seen.now)
            current = self._fingerprint(seen.observation, target.snapshot, over)
        if current == self.base_fingerprint:
            self.base_fingerprint = current  # the very same is compared at once
        is_of_target = target.snapshot is not None and target.snapshot.commit == target.commit
        is_fresh = is_of_target and current == self.base_fingerprint and self._due_moment(seen) is None
        known = replace(target, fingerprint=current, base=self.base_fingerprint, is_fresh=is_fresh, runs=runs)
        is_silent = self.snapshot is not None and bool(self.candidacy.unanswered_message())
        is_waiting = self.candidacy.candidate is not None and not is_silent
        if not target.commit or seen.observation.problems or is_waiting or self.compiler.is_busy or not is_free:
            return known
        stale = (seen.inventory.runs.keys() - over) | set(given_up)
        if not is_fresh and not self._is_postponed(seen, known):
            problem = self._start_compile(seen, target.commit, over, stale)
            return replace(known, problems=(*known.problems, problem)) if problem else known
        if seen.is_leading and seen.now >= self.worker_state.send_at():
            self.worker_state.note_sent(seen.now)
            if self.snapshot is not None and self.tree is not None:
                self.compiler.send_state(self._compile_request(seen, over, stale, self.snapshot.commit, self.tree))
        return known

    def _fingerprint(self, found: Observation, snapshot: Snapshot, over: frozenset[str]) -> Fingerprint:
        """Return the inputs of a plan; computed again only when nodes, pods or jobs have changed."""
        inputs = (snapshot, over, found.restrictions, *fingerprint_inputs(found, snapshot))
        return self.session.last("fingerprint", inputs, lambda: fingerprint_of(found, snapshot, over))

    def _due_moment(self, seen: Seen) -> int | None:
        """Return the latest moment that has passed since the plan was made, at which the answer may have changed."""
        moments = self.snapshot.moments if self.snapshot else ()
        return max((at for at in moments if at <= seen.wall_now), default=None)

    def _is_postponed(self, seen: Seen, target: Target) -> bool:
        """Return whether the target is not to be compiled now. It was rejected, and neither time nor, for the commit in
        force, a change of its inputs justifies another attempt. Or it is in force and was compiled a moment ago: nodes
        that flap would keep a core busy with plans, when starting jobs need it most."""
        if target.commit == self.revision and seen.now < self.worker_state.rested_at and self._due_moment(seen) is None:
            return True
        rejection = self.rejections.get(target.commit)
        if rejection is None or seen.now >= rejection.retry_at:
            return False
        if target.snapshot is None or target.snapshot.commit != target.commit:
            return True
        is_recent = seen.now < rejection.rejected_at + self.given.timings.compile_retry
        return is_recent or rejection.rests_on == (target.fingerprint, self._due_moment(seen))

    def _start_compile(self, seen: Seen, commit: str, over: frozenset[str], stale: Collection[str]) -> str:
        """Begin to compile, and return the obstacle; empty for none."""
        if not self.given.use.read():
            return self.given.use.problem
        try:
            tree = self.branch.read_tree(commit)
        except GitError as error:
            if self.tree is None or commit != self.revision:
                return str(error)
            tree = self.tree
        request = self._compile_request(seen, over, stale, commit, tree)
        due = self._due_moment(seen)
        self.running_compile = RunningCompile(commit, seen.observation, over, due, seen.now, tree)
        self.worker_state.note_sent(seen.now)
        log.info("a compile begins", extra={"commit": commit})
        self.compiler.start_compile(request)
        return ""

    def _compile_request(
        self, seen: Seen, over: frozenset[str], stale: Collection[str], commit: str, tree: Repository
    ) -> CompileRequest:
        """Return all inputs of a plan of this commit. stale: jobs whose next run is planned, not the existing
        object."""
        refs = [seen.inventory.runs[key].ref for key in sorted(over)]
        restrictions, gangs = seen.observation.restrictions, self.snapshot.gangs.items() if self.snapshot else ()
        return CompileRequest(
            commit,
            self.given.cluster,
            tree.files,
            tree.commit_dates,
            problems=[problem.as_data() for problem in tree.problems],
            state=[
                *state_objects(seen.observation, frozenset(stale)),
                *self.given.use.objects(),
                *past_runs(self.given.cluster, seen.inventory.runs.values()),
            ],
            finished_jobs=[(ref.namespace, ref.name, ref.kind) for ref in refs],
            executor=self.given.executor,
            clock=int(seen.wall_now),
            held_jobs=list(_by_job(restrictions.held_jobs)),
            closed_nodes=[(job, sorted(nodes)) for job, nodes in _by_job(restrictions.closed_nodes)],
            former=FormerPlan(
                list(_by_job({key: gang.pods for key, gang in gangs if gang.decision in ("start", "keep")})),
                self.snapshot.settings.volcano if self.snapshot else "",
            ),
        )


def _by_job(by_key: Mapping[str, Value]) -> Iterator[tuple[JobKey, Value]]:
    """(Namespace, name, kind) of each job with its value, in the order of the keys."""
    for key, value in sorted(by_key.items()):
        group_kind, namespace, name = key.split("/")
        yield (namespace, name, group_kind.partition(".")[0]), value
