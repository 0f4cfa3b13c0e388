"""Compiles in a child process with limits: a YAML bomb or a solver that hangs cannot end the loop.

A worker process (`reconciler.planning.compile.worker`) has loaded all modules and forks for each compile. Request and
answer are files; the child renames its answer into place, so it is always whole.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.diagnostics.guard import has_internal_error
from compiler.fields.texts import whole_number
from compiler.session import Session
from compiler.specs.gang_spec import JobKey
from compiler.syntax.parse import Adopt, ParsedFile, parse_file
from reconciler.cluster.client import short_error
from reconciler.cluster.objects import Object, Ref
from reconciler.planning.snapshot import CompileBreakdown, FormerPlan, RepositorySettings, Snapshot
from reconciler.threads.heartbeat import Heartbeat
from reconciler.timings import TIMINGS, CompileTimings


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """files, commit_dates, problems: of the tree at `commit`. state: the cluster's objects. finished_jobs: (namespace,
    name, kind) of jobs that are over. executor: as in `compiler.cli.executor.open_executor`. clock: as in
    `compiler.cluster_state.cluster_state.ClusterState`. held_jobs, closed_nodes: such a job with the reason, and with
    the names of the nodes. former: of the plan in force."""

    commit: str
    cluster: str
    files: Mapping[str, bytes]
    commit_dates: Mapping[str, int]
    problems: Sequence[Mapping[str, Any]] = ()
    state: Sequence[Object] = ()
    finished_jobs: Sequence[tuple[str, str, str]] = ()
    executor: str = "processes"
    clock: int | None = None
    held_jobs: Sequence[tuple[JobKey, str]] = ()
    closed_nodes: Sequence[tuple[JobKey, Sequence[str]]] = ()
    former: FormerPlan = field(default_factory=FormerPlan)


NO_REQUEST = CompileRequest("", "", {}, {})
"""An empty request."""


def encode_request(request: CompileRequest, held: CompileRequest) -> bytes:
    """Return the request as JSON: a file that is held by its path alone, objects that are held as [from, to] of their
    list. held: a former request, as both ends know it. Only what differs is sent: a running cluster of ten thousand
    nodes is 20 MB of JSON, of which few objects change between compiles."""
    data = {name: getattr(request, name) for name in CompileRequest.__slots__}
    data["files"] = {
        path: None if held.files.get(path) == content else base64.b64encode(content).decode()
        for path, content in request.files.items()
    }
    data["state"] = _pieces(request.state, held.state)
    return json.dumps(data).encode()


def decode_request(text: bytes, held: CompileRequest) -> CompileRequest:
    """Return the request that was encoded for a worker that holds `held`, with the same objects where they are
    unchanged."""
    data = json.loads(text)
    data["files"] = {
        path: held.files[path] if content is None else base64.b64decode(content)
        for path, content in data["files"].items()
    }
    pieces = (held.state[piece[0] : piece[1]] if isinstance(piece, list) else (piece,) for piece in data["state"])
    data["state"] = [*chain.from_iterable(pieces)]
    data["finished_jobs"] = [tuple(row) for row in data["finished_jobs"]]
    places, volcano = data["former"]
    data["former"] = FormerPlan([(tuple(job), value) for job, value in places], volcano)
    for name in ("held_jobs", "closed_nodes"):
        data[name] = [(tuple(job), value) for job, value in data[name]]
    return CompileRequest(**data)


def _pieces(state: Sequence[Object], held: Sequence[Object]) -> list[Object | list[int]]:
    """Return the state as new objects, and as stretches of the held one."""
    place_of = {id(item): at for at, item in enumerate(held)}
    places_by_name: dict[tuple[Any, ...], int] = {}
    pieces: list[Object | list[int]] = []
    stretch: list[int] | None = None
    for item in state:
        at = place_of.get(id(item))
        if at is None:
            places_by_name = places_by_name or {_identity(each): at for at, each in enumerate(held)}
            at = places_by_name.get(_identity(item))
        if at is None or (held[at] is not item and held[at] != item):
            pieces.append(item)
            stretch = None
        elif stretch is not None and stretch[1] == at:
            stretch[1] += 1
        else:
            stretch = [at, at + 1]
            pieces.append(stretch)
    return pieces


def _identity(item: Object) -> tuple[Any, ...]:
    metadata = item["metadata"]
    return item.get("apiVersion"), item.get("kind"), metadata.get("namespace"), metadata.get("name")


if TYPE_CHECKING:
    from compiler.cluster_state.cluster_state import ClusterState
    from compiler.outcome import Outcome
    from compiler.repository.tree import Repository
    from compiler.specs.cluster_spec import Specs

log = logging.getLogger(__name__)

CGROUP_FILES = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""The limit of the container, in cgroup versions 2 and 1."""
CHILD_SHARE = 0.75
"""Share of the memory limit; the rest is the reconciler's own."""
MOST, LEAST = 8 << 30, 1 << 30
"""Bytes that a child gets at most, and at least: below that no plan is made."""

_PASSED_VARIABLES = frozenset({"PATH", "HOME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV"})
_PASSED_PREFIXES = ("LC_", "PYTHON", "DASK_", "OMP_", "OPENBLAS_", "COVERAGE_")


class CompileProcess:
    """Runs at most one child at a time. `on_end` is called, from a thread, when a compile has ended. The worker is sent
    only what differs from `_held`, the inputs of the last compile that it saw end well. Its files are in a folder of
    its own: the compile of a process that was killed may go on, and answer, when the next one has begun."""

    def __init__(
        self,
        directory: Path,
        on_end: Callable[[], None],
        timings: CompileTimings = TIMINGS.compile,
        memory_limit: int | None = None,
        pages: Path | None = None,
    ) -> None:
        """pages: the folder for the page of each plan, None for no pages."""
        self.pages = pages
        self.directory, self.on_end, self.timings = directory / uuid.uuid4().hex[:8], on_end, timings
        self.memory_limit = memory_limit or child_memory_limit()
        most = timings.sending_limit + timings.grace
        self.heartbeat = Heartbeat("compile", timings.time_limit + most)
        self.sending_heartbeat = Heartbeat("compile-state", most)
        self._worker: subprocess.Popen[bytes] | None = None
        self._held = NO_REQUEST
        self._child = 0
        self._thread: threading.Thread | None = None
        self._sending: threading.Thread | None = None
        self._result: Snapshot | CompileBreakdown | None = None

    @property
    def is_busy(self) -> bool:
        return self._thread is not None

    def start_compile(self, request: CompileRequest) -> None:
        if self.is_busy:
            raise RuntimeError("a compile is under way")
        thread = threading.Thread(target=self._run, args=(request,), name="compile", daemon=True)
        thread.start()
        self._thread = thread

    def send_state(self, request: CompileRequest) -> None:
        """Let the worker know the state of this request before it is asked to compile. It must know the files already:
        only a child reads new ones. A compile that is begun meanwhile waits for that."""
        is_sending = self._sending is not None and self._sending.is_alive()
        if self.is_busy or is_sending or self._worker is None or self._held.files != request.files:
            return
        thread = threading.Thread(target=self._send_state, args=(request,), name="compile-state", daemon=True)
        thread.start()
        self._sending = thread

    def take_result(self) -> Snapshot | CompileBreakdown | None:
        """Return the result, once; None while there is none."""
        if self._thread is None or self._result is None:
            return None
        self._thread.join()
        result, self._result, self._thread = self._result, None, None
        return result

    def warm_up(self) -> None:
        """Start the worker, so that the first compile need not wait until it has loaded its modules."""
        if self._worker is None:
            self._worker = subprocess.Popen(
                [sys.executable, "-m", "reconciler.planning.compile.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                env={**child_environment(), "PYTHONHASHSEED": "0"},
            )

    def _send_state(self, request: CompileRequest) -> None:
        """Send the state to the worker. If that fails, the next request contains everything that the worker lacks."""
        self.sending_heartbeat.beat()
        try:
            question = self.directory / "state.json"
            question.write_bytes(encode_request(request, self._held))
            if self._order({"request": str(question)}, time.monotonic() + self.timings.sending_limit) == 0:
                self._held = request
        except Exception as error:  # the worker's state is unknown after any error
            log.warning("the compile worker was not told the state", extra={"reason": short_error(error)})
            self.stop()
        finally:
            self.sending_heartbeat.rest()

    def _run(self, request: CompileRequest) -> None:
        result: Snapshot | CompileBreakdown
        self.heartbeat.beat()
        try:
            if self._sending is not None:
                self._sending.join()
            result = self._compile(request)
        except Exception as error:  # any: a thread without a result would be busy for ever
            log.warning("a compile broke down", exc_info=error)
            result = CompileBreakdown(f"it failed: {short_error(error)}")
        self._result = result
        self.heartbeat.rest()
        self.on_end()

    def _compile(self, request: CompileRequest) -> Snapshot | CompileBreakdown:
        if not self.directory.exists():  # remove the files of former processes
            shutil.rmtree(self.directory.parent, ignore_errors=True)
            self.directory.mkdir(parents=True)
        names = "request.json", "compiled.json", "errors.txt", "culprits.json"
        question, answer, errors, culprits = (self.directory / name for name in names)
        for old in (answer, errors, culprits):
            old.unlink(missing_ok=True)
        if self._worker is not None and self._worker.poll() is not None:
            self.stop()
        self.warm_up()
        question.write_bytes(encode_request(request, self._held))
        paths = {"request": str(question), "answer": str(answer), "errors": str(errors), "culprits": str(culprits)}
        if self.pages is not None:
            paths["pages"] = str(self.pages)
        limits = {"memory": self.memory_limit, "seconds": int(self.timings.time_limit), "idle": self.timings.idle}
        try:
            status = self._run_in_worker({**paths, **limits}, time.monotonic() + self.timings.time_limit)
        except TimeoutError:
            self.stop()
            return CompileBreakdown(f"it was stopped after {self.timings.time_limit:g} s")
        except (EOFError, OSError):  # it was killed, by the kernel or by somebody
            status = self.stop()
        except ValueError:  # the worker printed no number; its next line may answer an earlier order
            self.stop()
            raise
        finally:
            self._child = 0
        if status == 0:
            self._held = request
        if status != 0 or not answer.exists():
            text = errors.read_text(errors="replace") if errors.exists() else ""
            message = text.strip().rpartition("\n")[2][:500] or "no message"
            blamed = json.loads(culprits.read_text()) if culprits.exists() else ()
            return CompileBreakdown(f"it ended {_end_text(status)}: {message}", blamed)
        return Snapshot.from_json(answer.read_text())

    def _run_in_worker(self, order: Mapping[str, Any], deadline: float) -> int:
        """Return the exit status of the compiling child. Raises TimeoutError at the deadline, EOFError or OSError
        without a worker."""
        self._child = self._order(order, deadline)
        assert self._worker is not None  # noqa: S101
        return _receive(self._worker, deadline)

    def _order(self, order: Mapping[str, Any], deadline: float) -> int:
        """Return the worker's first answer to an order. Raises as `_run_in_worker`."""
        assert self._worker is not None  # noqa: S101
        assert self._worker.stdin is not None  # noqa: S101
        self._worker.stdin.write(json.dumps(order).encode() + b"\n")
        self._worker.stdin.flush()
        return _receive(self._worker, deadline)

    def stop(self) -> int:
        """End the worker, and the compile under way; its exit status."""
        worker, self._worker, self._held = self._worker, None, NO_REQUEST
        if self._child:
            _kill_process_group(self._child)
        if worker is None:
            return -1
        _kill_process_group(worker.pid)
        for pipe in (worker.stdin, worker.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        return worker.wait()


@dataclass(slots=True)
class WorkerState:
    """When to send the state of the cluster to the worker although nothing is compiled. seen: the last lists of objects
    that plans depend on. changed_at, sent_at: on the clock. rested_at: when it may compile the same commit again."""

    timings: CompileTimings = TIMINGS.compile
    seen: tuple[object, ...] = ()
    changed_at: float = -inf
    sent_at: float = -inf
    rested_at: float = -inf

    def note_seen(self, lists: tuple[object, ...], now: float) -> None:
        """Note what the cluster holds; lists of the same objects are compared quickly."""
        if lists != self.seen:
            self.seen, self.changed_at = lists, now

    def note_sent(self, now: float) -> None:
        """Note that the last state is being sent to the worker."""
        self.sent_at = now

    def note_compiled(self, seconds: float, now: float) -> None:
        """Note that a compile has ended, which took so long."""
        self.rested_at = now + min(seconds, self.timings.longest_rest)

    def send_at(self) -> float:
        """Return when to send the state, on the clock; infinite if the worker knows the last one."""
        is_known = self.sent_at >= self.changed_at
        if is_known:
            return inf
        return min(self.changed_at + self.timings.quiet, self.sent_at + self.timings.longest_unsent)


def _end_text(status: int) -> str:
    """Return how a process ended: by an exit code, or by a signal."""
    if status >= 0:
        return f"with {status}"
    name = next((each.name for each in signal.Signals if each == -status), str(-status))
    return f"by {name}" + (" (out of memory?)" if status == -signal.SIGKILL else "")


def _receive(worker: subprocess.Popen[bytes], deadline: float) -> int:
    """Return the next line of the worker, a number."""
    assert worker.stdout is not None  # noqa: S101
    line = b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([worker.stdout], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError
        # One byte: a child that has ended soon leaves two lines, and the second one is for the next call.
        if not (piece := os.read(worker.stdout.fileno(), 1)):
            raise EOFError
        line += piece
    return int(line)


def _kill_process_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        log.debug("the compile had ended already")


def available_memory(files: tuple[Path, ...] = CGROUP_FILES) -> int:
    """Return bytes that this container may use: the cgroup's limit, or all of the machine's."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in files:
        try:
            limit = whole_number(file.read_text().strip(), physical)
        except OSError:
            continue
        return physical if limit is None else limit
    return physical


def child_memory_limit(available: int | None = None) -> int:
    """Return bytes of address space for a child, so that it fails by itself before the kernel ends the whole
    container."""
    whole = available_memory() if available is None else available
    return max(LEAST, min(MOST, int(whole * CHILD_SHARE)))


def child_environment() -> dict[str, str]:
    """Return the variables of this process that a child needs; no credentials and no address of a cluster."""
    passed = _PASSED_VARIABLES.union(name for name in os.environ if name.startswith(_PASSED_PREFIXES))
    return {name: value for name, value in os.environ.items() if name in passed}


def compile_request(request: CompileRequest, session: Session | None = None) -> Snapshot:
    """Compile in this process. A commit with any error is not ok: a job that became unreadable must not look like one
    that was removed. session: of this process."""
    return compile_with_outcome(request, session or Session())[0]


def compile_with_outcome(request: CompileRequest, session: Session) -> tuple[Snapshot, Outcome]:
    """`compile_request`, and what the page of the plan is made from."""
    from compiler.cli.executor import open_executor
    from compiler.diagnostics.diagnostic import Diagnostic
    from compiler.diagnostics.render.json import diagnostic_entry
    from compiler.emit.waves import manifests
    from compiler.explain.caveats import REFUSED_QUEUE
    from compiler.pipeline import compile_specs
    from compiler.views import data

    tree, specs, state = _inputs(request, session)
    with open_executor(request.executor) as mapper:
        outcome = compile_specs(tree, specs, state, mapper=mapper)
    errors = list[Diagnostic]()
    objects = manifests(outcome, errors.append)
    outcome = outcome.with_diagnostics(errors)
    diagnostics = tuple(diagnostic_entry(diagnostic) for diagnostic in outcome.diagnostics)
    settings = _settings_of(outcome.specs)
    # Whether a queue is refused the dry run asks the server, and of one in force that holds up only itself.
    is_good = all(each.severity != "error" or each.code == REFUSED_QUEUE.code for each in outcome.diagnostics)
    if outcome.problem is None or not outcome.ok or not is_good:
        return Snapshot(request.commit, ok=False, diagnostics=diagnostics, settings=settings), outcome
    hypernodes, nodes = outcome.problem.hypernodes, outcome.problem.nodes
    cluster, jobs = outcome.specs.cluster, ((each.gang.document, each.gang) for each in outcome.decisions)
    gangs = {Ref(job.api_version, job.kind, gang.namespace, job.name).key: gang for job, gang in jobs}
    snapshot = Snapshot(
        request.commit,
        ok=True,
        gated=cluster.binding == "gated",
        plan=data.plan_document(outcome),
        manifests=objects,
        leaves={node.name: hypernodes[node.leaf].name for node in nodes if node.leaf is not None},
        diagnostics=diagnostics,
        max_waiting_pods=cluster.max_waiting_pods,
        moments=outcome.recheck_times,
        nodes_behind=outcome.origins.outdated_nodes if outcome.origins else (),
        requests={key: [dict(role.pod.requests) for role in gang.roles] for key, gang in gangs.items()},
        settings=settings,
    )
    return snapshot, outcome


def _settings_of(specs: Specs) -> RepositorySettings:
    from compiler.kubernetes import ALLOW_PRUNE_ANNOTATION, SCHEDULER_NAMESPACE, annotations_of
    from compiler.volcano.fairshare import fair_share

    cluster, plugin = specs.cluster, fair_share(specs.cluster, specs.scheduler)
    allow_prune = annotations_of(cluster.document.data).get(ALLOW_PRUNE_ANNOTATION, "")
    return RepositorySettings(
        allow_prune,
        str(cluster.volcano),
        "/".join(plugin.state) if plugin and plugin.orders_jobs else "",
        cluster.names_volcano,
        specs.scheduler.namespace if specs.scheduler else SCHEDULER_NAMESPACE,
    )


def _inputs(request: CompileRequest, session: Session) -> tuple[Repository, Specs, ClusterState]:
    from compiler.cluster_state.cluster_state import ClusterState
    from compiler.diagnostics.diagnostic import Diagnostic, Position
    from compiler.reading import read_specs
    from compiler.repository.tree import Repository
    from compiler.specs.cluster_spec import VolcanoVersion

    problems = tuple(Diagnostic(**{**p, "position": Position(**p["position"]), "see": None}) for p in request.problems)
    state = replace(
        ClusterState.from_objects(request.state, request.finished_jobs, request.clock, session),
        held=dict(request.held_jobs),
        closed_nodes={job: frozenset(nodes) for job, nodes in request.closed_nodes},
        former_places=dict(request.former.places),
    )
    tree = Repository(request.files, request.commit_dates, problems)
    last = VolcanoVersion.of_text(request.former.volcano) if request.former.volcano else None
    parse = partial(_known_or_parsed, session)
    specs = read_specs(tree, request.cluster, parse, release_in=lambda namespace: state.release_in(namespace) or last)
    return tree, specs, state


def read_files(files: Mapping[str, bytes], session: Session) -> None:
    """Read the files that the session does not know, and forget all others."""
    from compiler.reading.documents import read_alone
    from compiler.repository.tree import Repository

    manifests = ((files[name], name) for name in Repository(files).manifests())
    session.each("file", manifests, lambda content, name: read_alone(name, content))


def _known_or_parsed(session: Session, name: str, content: bytes, adopt: Adopt) -> ParsedFile:
    """Return the file as it was read; an internal error in it is not sure to happen again."""
    known: ParsedFile | None = session.known("file", content, name)
    return parse_file(name, content, adopt) if known is None or has_internal_error(known.all_diagnostics()) else known


def prepare_next(request: CompileRequest, session: Session) -> None:
    """Work out what a plan of this request rests on, for the next one. Nothing is solved."""
    from compiler.lower.digest import problem_digest
    from compiler.pipeline import lowered_problem

    problem_digest(lowered_problem(*_inputs(request, session)), session)
