"""The kinds of faults: each is at work while its block lasts, around one action of the story."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tests.faults import answers, git_faults, nodes
from tests.faults.proxy import Fault, Rule
from tests.faults.world import World

POD_WATCH = r"^/api/v1/pods\?.*watch=1"
JOBS = r"/batch\.volcano\.sh/v1alpha1/.*jobs"
WRITES: Mapping[str, tuple[str, str]] = {
    "a job": ("POST|PATCH", JOBS),
    "a gate": ("PATCH", "/pods/"),
    "an eviction": ("POST", "/pods/.*/eviction"),
    "the inventory": ("POST|PUT|PATCH", r"gangplan-system/configmaps(\?|/[^?]*inventory)"),
    "the status": ("POST|PUT|PATCH", r"gangplan-system/configmaps/[^?]*status"),
    "a queue": ("POST|PATCH", "/queues"),
    "a delete": ("DELETE", ""),
    "the lease": ("POST|PUT", "/leases"),
    "an event": ("POST", "/events"),
}
"""The named writes, as method and address."""
_NO_DRY_RUN = r"^(?!.*dryRun)"


def rule_for_write(name: str, fault: Fault, *, skip: int = 0, times: int | None = 1) -> Rule:
    method, path = WRITES[name]
    return Rule(fault, method, f"{_NO_DRY_RUN}.*{path}", skip=skip, times=times)


@dataclass(frozen=True)
class Step:
    """One action with one fault around it. seconds: for which the fault stays after the action. write: for faults that
    strike at a named write, with `skip` of its kind before. dice: the seed of what the action and the fault choose.
    is_certain: the action brings that write, so it is waited for, and one that does not come is an error."""

    action: str
    fault: str
    seconds: float = 1.5
    write: str = "a job"
    skip: int = 0
    dice: int = 0
    is_certain: bool = False


Kind = Callable[[World, Step], contextlib.AbstractContextManager[None]]
KINDS: dict[str, Kind] = {}
EXTRA_SECONDS: dict[str, float] = {}
"""What a kind adds to the time in which the cluster is to be at rest again."""


def _kind(name: str, extra: float = 0.0) -> Callable[[Callable[[World, Step], Iterator[None]]], None]:
    def register(function: Callable[[World, Step], Iterator[None]]) -> None:
        KINDS[name] = contextlib.contextmanager(function)
        EXTRA_SECONDS[name] = extra

    return register


def _request_kind(name: str, fault: Fault, method: str = "", path: str = "", chance: float = 1.0) -> None:
    """While it lasts, every request that matches is hit (or so many of them)."""

    def at_work(world: World, step: Step) -> Iterator[None]:
        with world.proxy.rule(Rule(fault, method, path, chance=chance)):
            yield
            time.sleep(step.seconds)

    _kind(name)(at_work)


# --- requests

_MUTATING = "POST|PUT|PATCH|DELETE"
_request_kind("409 on half of the writes", answers.refuse(409), _MUTATING, chance=0.5)
_request_kind("429 with Retry-After", answers.refuse(429, Retry_After="1"), chance=0.7)
_request_kind("500 before a write", answers.refuse(500), _MUTATING, chance=0.5)
_request_kind("500 after a write", answers.fail_after(500), _MUTATING, chance=0.5)
_request_kind("no answer to a write", answers.cut_after, _MUTATING, chance=0.5)
_request_kind("null", answers.answer_null, chance=0.5)
_request_kind("truncated", answers.truncate, chance=0.5)
_request_kind("dripping", answers.drip(0.05, 8), "GET", chance=0.5)
_request_kind("503 of everything", answers.refuse(503))


def _at_watches(name: str, fault: Fault) -> None:
    """The watches that run end, and the next ones are hit."""

    def at_work(world: World, step: Step) -> Iterator[None]:
        with world.proxy.rule(Rule(fault, "GET", r"[?&]watch=")):
            world.proxy.cut_streams()
            yield
            time.sleep(step.seconds)

    _kind(name)(at_work)


_at_watches("watches expire", answers.expire_watch)
_at_watches("watches end at once", answers.end_watch)
_at_watches("watches are refused", answers.refuse(410))


@_kind("404 of jobs")
def _unserved(world: World, step: Step) -> Iterator[None]:
    """For a while the API server knows nothing of Volcano's jobs."""
    with world.proxy.rule(Rule(answers.refuse(404), "GET", JOBS)):
        world.proxy.cut_streams("/jobs")
        yield
        time.sleep(step.seconds)


@_kind("403 and 404 after start", extra=10)
def _young_server(world: World, step: Step) -> Iterator[None]:
    """An API server in its first seconds: roles and custom resources are not yet known to it."""
    custom = Rule(answers.refuse(404), path=r"^/apis/[^/]*(volcano\.sh|kubeflow\.org)/")
    with world.proxy.rule(custom), world.proxy.rule(Rule(answers.refuse(403))):
        world.proxy.cut_streams()
        yield
        time.sleep(step.seconds)


@_kind("half-open watches", extra=90)
def _half_open(world: World, step: Step) -> Iterator[None]:
    del step
    world.proxy.freeze_watches()
    yield


@_kind("late watches of pods")
def _late_pods(world: World, step: Step) -> Iterator[None]:
    """What the reconciler has just written is not part of what its watch shows, for a second and more."""
    with world.proxy.rule(Rule(answers.late_watch(step.seconds), "GET", POD_WATCH)):
        world.proxy.cut_streams("/pods")
        yield
        time.sleep(step.seconds)
    world.proxy.cut_streams("/pods")


@_kind("credentials rotate")
def _rotation(world: World, step: Step) -> Iterator[None]:
    world.proxy.rotate_token(empty_for=step.seconds)
    yield


@_kind("partition", extra=30)
def _partition(world: World, step: Step) -> Iterator[None]:
    with world.proxy.partition():
        yield
        time.sleep(step.seconds)


@_kind("API server restarts", extra=30)
def _restart(world: World, step: Step) -> Iterator[None]:
    """The real one."""
    del step
    yield
    world.plane.restart_api_server()


# --- evictions and nodes

_request_kind("evictions are refused", answers.refuse(429), "POST", "/eviction")
_request_kind("no answer to an eviction", answers.cut_after, "POST", "/eviction")


@_kind("a budget allows no eviction", extra=10)
def _budget(world: World, step: Step) -> Iterator[None]:
    with nodes.no_eviction_allowed(world.plane):
        yield
        time.sleep(step.seconds)


def _at_node(way: str) -> None:
    """A node is gone for a while, one of those that are there; it is back for the rest."""

    def at_work(world: World, step: Step) -> Iterator[None]:
        node = random.Random(step.dice).choice(world.usable_nodes)  # noqa: S311
        world.take_out(node, way)
        yield
        time.sleep(step.seconds)
        world.bring_back(node)

    _kind(f"a node is {way}", extra=20)(at_work)


for _way in nodes.WAYS:
    _at_node(_way)


# --- the process


@_kind("killed before a write", extra=5)
def _killed_before(world: World, step: Step) -> Iterator[None]:
    yield from _strike(world, step, after=False)


@_kind("killed after a write", extra=5)
def _killed_after(world: World, step: Step) -> Iterator[None]:
    yield from _strike(world, step, after=True)


def _strike(world: World, step: Step, *, after: bool) -> Iterator[None]:
    """SIGKILL at the write, which is lost or done; then it is started again. Where the write does not come it is killed
    all the same."""
    hold = answers.Hold(world.reconciler.kill, after=after, drop=True)
    with world.proxy.rule(rule_for_write(step.write, hold, skip=step.skip)) as rule:
        yield
        _wait_for_write(world, step, rule)
    if rule.hits:
        hold.wait_called()  # else it could strike the reconciler that is started next
    world.restart_reconciler()


def _wait_for_write(world: World, step: Step, rule: Rule) -> None:
    came = rule.wait(world.bar() if step.is_certain else step.seconds * 2)
    assert came or not step.is_certain, f"{step.write} was not written"


@_kind("stopped at a write", extra=15)
def _stopped(world: World, step: Step) -> Iterator[None]:
    """SIGSTOP at the write for some seconds; what it held is then too old to be true."""
    hold = answers.Hold(world.reconciler.stop)
    hold.close_gate()
    with world.proxy.rule(rule_for_write(step.write, hold, skip=step.skip)) as rule:
        yield
        _wait_for_write(world, step, rule)
        time.sleep(step.seconds)
        hold.open_gate()
    if rule.hits:
        hold.wait_called()  # else it could stop the reconciler after this
    world.reconciler.wake()


@_kind("clock jumps")
def _clock(world: World, step: Step) -> Iterator[None]:
    world.reconciler.set_clock((-86400, -60, 60, 3600, 86400)[step.dice % 5])
    yield
    time.sleep(step.seconds)
    world.reconciler.set_clock(0)


@_kind("disk full", extra=30)
def _disk(world: World, step: Step) -> Iterator[None]:
    world.reconciler.fill_disk()
    yield
    time.sleep(step.seconds)
    world.reconciler.free_disk()


@_kind("nothing")
def _nothing(world: World, step: Step) -> Iterator[None]:
    del world, step
    yield


# --- git

for _name, _fault in git_faults.FAULTS.items():

    def _at_git(world: World, step: Step, fault: git_faults.GitFault = _fault) -> Iterator[None]:
        with fault(world.repository, step.seconds):
            yield

    _kind(f"git: {_name}", extra=30)(_at_git)


@_kind("git: hangs", extra=10)
def _git_hangs(world: World, step: Step) -> Iterator[None]:
    with world.slow_git.hanging():
        yield
        time.sleep(step.seconds)
