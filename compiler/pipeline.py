"""From a repository to an outcome, phase by phase. A plan that the verifier rejects never leaves it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from compiler.cluster_state.cluster_state import ClusterState
from compiler.cluster_state.live_requests import with_live_requests
from compiler.cluster_state.observed import with_closed_nodes
from compiler.cluster_state.succeeded import with_present_pods, without_succeeded_pods
from compiler.diagnostics.diagnostic import Diagnostic, Position, declare_rule
from compiler.diagnostics.guard import internal_error
from compiler.emit import static
from compiler.explain import caveats
from compiler.explain.quotas import quota_diagnostics
from compiler.lower.lowering import lower
from compiler.lower.origins import Origins
from compiler.outcome import DocumentErrors, Outcome, blame, job_decisions
from compiler.reading import read_specs
from compiler.reading.clusters import NO_CLUSTER_CODES
from compiler.reading.consistency import without_documents
from compiler.reading.culprits import LeftOut, attributed, document_under_way, spec_documents
from compiler.reading.ignores import without_ignored
from compiler.repository.tree import Repository
from compiler.session import Session
from compiler.specs.cluster_spec import Specs
from compiler.syntax.documents import Document
from solver.mip.executors import LOCAL_EXECUTOR, Mapper
from solver.options import Options
from solver.plan import Plan
from solver.planner import solve
from solver.problem import InvalidProblemError, Problem
from solver.verify import verify

INVALID_PROBLEM = declare_rule("GP501", "error")
EXECUTOR_FAILED = declare_rule("GP503", "warning")
TIME_LIMIT_REACHED = declare_rule("GP504", "warning")
PLAN_REJECTED = declare_rule("GP502", "error")

WITHOUT_NODES = "GP355"
"""Of a repository without nodes: the state brings some."""
RESERVED_SHARE, RESERVED_LOWERINGS = 0.1, 6.0
"""Kept of a time limit for what follows the plan (verifying, views): a share of it, and times what lowering took, which
grows with the same pods and nodes."""


@dataclass(frozen=True, slots=True)
class CommandLimit:
    """How long a command may take, from its start (`time.monotonic`) to its end. seconds: None for the cluster's
    `timeLimit`."""

    seconds: float | None = None
    started_at: float = field(default_factory=time.monotonic)


def compile_repository(
    tree: Repository,
    cluster: str | None = None,
    state: ClusterState | None = None,
    options: Options | None = None,
    mapper: Mapper = LOCAL_EXECUTOR,
    limit: CommandLimit | None = None,
) -> Outcome:
    """Compile one cluster of the repository against what the cluster holds (nothing, without a state).

    options, mapper: as `solver.solve`; by default the cluster's own gap, what `limit` leaves, and this process.
    """
    limit = limit or CommandLimit()
    specs = read_specs(tree, cluster, release_in=(state or ClusterState()).release_in)  # 1 read, 2 check
    return compile_specs(tree, specs, state, options, mapper, limit)


def compile_specs(
    tree: Repository,
    specs: Specs,
    state: ClusterState | None = None,
    options: Options | None = None,
    mapper: Mapper = LOCAL_EXECUTOR,
    limit: CommandLimit | None = None,
) -> Outcome:
    """`compile_repository` for specs that were read already."""
    limit = limit or CommandLimit()
    digests = input_digests(tree, specs)
    if state is not None and state.nodes:
        specs = replace(specs, diagnostics=tuple(each for each in specs.diagnostics if each.code != WITHOUT_NODES))
    if fatal := tuple(diagnostic for diagnostic in specs.diagnostics if diagnostic.code in NO_CLUSTER_CODES):
        return Outcome(fatal, specs, digests)
    began = time.monotonic()
    lowered = _lower(specs, state, tree.commit_dates)  # 3 lower
    reserved = RESERVED_LOWERINGS * (time.monotonic() - began)
    while True:
        specs, problem, origins = lowered.specs, lowered.problem, lowered.origins
        try:
            plan = solve(problem, options or _options_within(limit, reserved, specs), mapper)  # 4 solve
        except InvalidProblemError as error:  # one job that cannot be counted with does not take the others with it
            diagnostic, culprit = _invalid_problem(error, specs, origins, problem)
            if culprit is None:
                return Outcome(specs.diagnostics, specs, digests).with_diagnostics([diagnostic])
            lowered = lowered.without({culprit.identity: (culprit, diagnostic)})
            continue
        if violations := _verifier_diagnostics(specs, origins, problem, plan):  # 5 verify
            return Outcome(specs.diagnostics, specs, digests).with_diagnostics(violations)
        decisions, errors = job_decisions(specs, problem, origins, plan)
        if not errors:
            break
        lowered = lowered.without(errors)
    session = Session() if state is None else state.session
    outcome = Outcome(specs.diagnostics, specs, digests, problem, origins, plan, decisions, session)  # 6 outcome
    return outcome.with_diagnostics(
        without_ignored(
            tree,
            (
                *_plan_diagnostics(outcome, problem, origins, plan, state),
                *_executor_diagnostics(specs, mapper),
                *_time_limit_diagnostics(specs, plan),
            ),
        )
    )


def lowered_problem(tree: Repository, specs: Specs, state: ClusterState | None = None) -> Problem:
    """Return the problem of which `compile_specs` makes the first plan."""
    return _lower(specs, state, tree.commit_dates).problem


def empty_cluster(specs: Specs) -> Problem:
    """Return the cluster without the jobs, with all resources that its nodes offer."""
    cluster = replace(specs, gangs=())
    return lower(cluster, resources={name for node in specs.nodes for name in node.allocatable} - {"pods"})[0]


@dataclass(frozen=True, slots=True)
class _Lowered:
    """The specs as they were read, as the state lets them be, and as a problem."""

    read: Specs
    state: ClusterState | None
    dates: Mapping[str, int]
    specs: Specs
    problem: Problem
    origins: Origins

    def without(self, errors: DocumentErrors) -> _Lowered:
        """Lowered again without these documents and what depends on them."""
        documents = [document for document, _ in errors.values()]
        read = without_documents(self.read, documents, [error for _, error in errors.values()])
        return _lower(read, self.state, self.dates)


def _lower(specs: Specs, state: ClusterState | None, dates: Mapping[str, int]) -> _Lowered:
    """Documents with which lowering fails have an error and are left out, with what depends on them. Where it fails
    because of running pods, no document is to blame, and its exception passes."""

    def lowered(left_out: LeftOut) -> _Lowered:
        documents = [each for each in spec_documents(specs) if each.identity in left_out] if left_out else []
        within = _specs_within(without_documents(specs, documents), state)
        return _Lowered(specs, state, dates, within, *lower(within, state, dates))

    try:
        return lowered(frozenset())
    except MemoryError:
        raise
    except Exception:
        if state is not None and _can_be_lowered(specs, _without_what_runs(state), dates):
            raise
    errors = DocumentErrors()
    found = attributed(lowered, lambda: spec_documents(specs), partial(blame, errors))
    return found.without(errors) if errors else found


def _without_what_runs(state: ClusterState) -> ClusterState:
    """Return the nodes alone."""
    return ClusterState(state.nodes, hypernodes=state.hypernodes, numatopologies=state.numatopologies)


def _can_be_lowered(specs: Specs, state: ClusterState, dates: Mapping[str, int]) -> bool:
    try:
        lower(_specs_within(specs, state), state, dates)
    except MemoryError:
        raise
    except Exception:
        return False
    return True


def _plan_diagnostics(
    outcome: Outcome, problem: Problem, origins: Origins, plan: Plan, state: ClusterState | None
) -> list[Diagnostic]:
    """Findings on a plan. Where looking for one fails, that is an error of the document that was looked at."""
    specs, found = outcome.specs, list[Diagnostic]()
    for find in (
        partial(static.binding_diagnostics, outcome),
        partial(caveats.unplanned_numa_diagnostics, origins),
        partial(caveats.reserved_room_diagnostics, origins),
        partial(caveats.unfit_run_diagnostics, specs, origins),
        partial(caveats.live_request_diagnostics, origins),
        partial(caveats.refused_queue_diagnostics, origins),
        partial(caveats.other_release_diagnostics, specs, state),
        partial(caveats.unnamed_device_diagnostics, problem, origins, plan),
        partial(caveats.turn_diagnostics, problem, origins, plan),
        partial(quota_diagnostics, specs, origins, problem, plan, state),
    ):
        try:
            found += find()
        except MemoryError:
            raise
        except Exception as error:
            found.append(internal_error(document_under_way(error) or specs.cluster.document, error))
    return found


def _specs_within(specs: Specs, state: ClusterState | None) -> Specs:
    """Return the specs as the state lets them be: without closed nodes and pods that have ended well, with the pods
    that services have beyond theirs, and with what the cluster's pods ask for."""
    if state is None:
        return specs
    present = with_present_pods(without_succeeded_pods(with_closed_nodes(specs, state), state), state)
    return with_live_requests(present, state)


def _options_within(limit: CommandLimit, reserved: float, specs: Specs) -> Options:
    """Return the options of a plan that leaves the command so many seconds of its limit, and a share of it."""
    seconds = specs.cluster.time_limit if limit.seconds is None else limit.seconds
    left = seconds * (1 - RESERVED_SHARE) - reserved - (time.monotonic() - limit.started_at)
    return Options(gap=specs.cluster.gap, time_limit=max(0.0, left))


def input_digests(tree: Repository, specs: Specs) -> dict[str, str]:
    """File -> its digest, for every file with a document of the cluster."""
    read = sorted({specs.cluster.document.file, *(document.file for document in specs.documents)} & tree.files.keys())
    return {file: f"sha256:{hashlib.sha256(tree.files[file]).hexdigest()}" for file in read}


def _invalid_problem(
    error: InvalidProblemError, specs: Specs, origins: Origins, problem: Problem
) -> tuple[Diagnostic, Document | None]:
    """Return the diagnostic of a refused problem, and the job that is to blame, if one is."""
    culprit = _invalid_gang(problem, error.where)
    where = error.where if culprit is None or error.where[1] == culprit else ("gangs", culprit)
    document = None if culprit is None else origins.gangs[culprit].document
    at, name = _position(specs, origins, where), "" if document is None else document.display_name
    return INVALID_PROBLEM.diagnostic(at, str(error), "correct the value there", object=name), document


def _invalid_gang(problem: Problem, where: tuple[str | int, ...]) -> int | None:
    """Return the gang that a refusal names; of a sum over all gangs, the one with the largest request."""
    match where:
        case ("gangs", int(), "roles", int(), "request", int(r)):
            requested = [
                max((role.replicas * role.request[r] for role in gang.roles), default=0) for gang in problem.gangs
            ]
            return max(range(len(requested)), key=lambda j: (requested[j], j))
        case ("gangs", int(j), *_):
            return j
    return None


def _verifier_diagnostics(specs: Specs, origins: Origins, problem: Problem, plan: Plan) -> list[Diagnostic]:
    return [
        PLAN_REJECTED.diagnostic(
            _position(specs, origins, _problem_path(violation.where)),
            f"{violation.rule}: {violation.message}",
            "report this, with the repository and the state; nothing was emitted",
        )
        for violation in verify(problem, plan)
    ]


def _executor_diagnostics(specs: Specs, mapper: Mapper) -> list[Diagnostic]:
    help = "repair the executor, or use none: --executor local"
    at = specs.cluster.document.position()
    return [
        EXECUTOR_FAILED.diagnostic(
            at, f"the executor failed ({fault}); the plan was made in this process, and is the same", help
        )
        for fault in mapper.faults
    ]


def _time_limit_diagnostics(specs: Specs, plan: Plan) -> list[Diagnostic]:
    if not plan.hit_time_limit:
        return []
    message = "the time limit cut the plan short; the same input may give another plan"
    at = specs.cluster.document.position()
    return [TIME_LIMIT_REACHED.diagnostic(at, message, "raise spec.timeLimit (or --time-limit), or spec.gap")]


def _problem_path(where: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Return the problem's path for one of the plan: decisions are in the order of the gangs."""
    return ("gangs", *where[1:]) if where[:1] == ("decisions",) else where


def _position(specs: Specs, origins: Origins, where: tuple[str | int, ...]) -> Position:
    return origins.position(where) or specs.cluster.document.position()
