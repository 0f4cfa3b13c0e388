"""What Volcano's scheduler saw and decided, by its own log. What an outside look sees a moment later may be on the
other side of a cycle."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from tests.controlplane import ControlPlane

SCHEDULER = "volcano-scheduler"
LOGGING = {"-v": "3", "--vmodule": "event_handlers=4,proportion=5"}
LINE = re.compile(r"^[IWE](\d{4}) (\S+) +\d+ \S+\] (.*)$", re.MULTILINE)
CYCLE = re.compile(r'"SnapShot for scheduling"')
ARRIVES = re.compile(r"Add PodGroup\((\S+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\)")
POD = r"<default/(\S+)-pod-(\d+)>"
LET_IN = re.compile(r"job (\S+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12} inqueue true")
COMES = re.compile(rf"Added pod {POD} into cache")
ENDS = re.compile(rf"Pod {POD} is in status Succeeded")
PLACED = re.compile(rf"After allocated Task {POD} to Node <(\S+)>")
EVICTED = re.compile(r"Evicting pod default/(\S+)-pod-(\d+), because")
GIVEN = re.compile(rf"After pipelined Task {POD} to Node <(\S+?)>")
FORGOTTEN, KEPT = "Discarding operations", "Committing operations"


@dataclass(slots=True)
class Account:
    """Moments of one podgroup of a job in the scheduler's eyes, in seconds: its arrival, when proportion, asked last,
    let it in, and once more where that was lost; its last pod, the ends of its pods by their numbers.
    cycle: the number of that which started it. nodes: of its pods by their numbers. given: where they last got room by
    preempt or reclaim. evicted: pods that were."""

    arrived: float = 0.0
    let_in: float = 0.0
    let_in_again: float = 0.0
    pods_came: float = 0.0
    ends: dict[int, float] = field(default_factory=dict)
    cycle: int = -1
    nodes: Mapping[int, str] = field(default_factory=dict)
    given: dict[int, str] = field(default_factory=dict)
    evicted: set[int] = field(default_factory=set)

    @property
    def ended(self) -> float:
        return max(self.ends.values())


@dataclass(slots=True)
class Log:
    """cycles: when each took its look at the cluster. jobs: by name, their podgroups one after the other."""

    cycles: list[float] = field(default_factory=list)
    jobs: dict[str, list[Account]] = field(default_factory=dict)

    def number(self, moment: float) -> int:
        """Of the cycle that began last."""
        return bisect_right(self.cycles, moment + 1e-6) - 1


def log_decisions(plane: ControlPlane, period: str) -> list[str]:
    """Start the scheduler again so that it logs what is read here, with so long a pause between its cycles; the command
    of the one before."""
    before = Path(f"/proc/{plane.pid(SCHEDULER)}/cmdline").read_text().rstrip("\0").split("\0")
    options = {**LOGGING, "--schedule-period": period}
    kept = [word for word in before if word.partition("=")[0] not in options]
    plane.remove_component(SCHEDULER)
    plane.add_component(SCHEDULER, [*kept, *(f"{name}={value}" for name, value in options.items())], {})
    return before


def read_log(text: str, since: datetime) -> Log:
    """The log from that moment on."""
    found, placed, zone = Log(), list[tuple[str, int, str]](), datetime.now().astimezone().tzinfo
    for day, clock, said in LINE.findall(text):
        when = datetime.strptime(f"{since.year}{day} {clock}", "%Y%m%d %H:%M:%S.%f").replace(tzinfo=zone)
        if (moment := (when - since).total_seconds()) >= 0:
            _read_line(found, placed, moment, said)
    return found


def _read_line(found: Log, placed: list[tuple[str, int, str]], moment: float, said: str) -> None:
    if CYCLE.match(said):
        found.cycles.append(moment)
    elif seen := ARRIVES.match(said):
        found.jobs.setdefault(seen[1], []).append(Account(moment))
    elif seen := PLACED.match(said):
        placed.append((seen[1], int(seen[2]), seen[3]))
    elif said.startswith(FORGOTTEN):
        placed.clear()
    elif said.startswith(KEPT) and placed:
        account = found.jobs[placed[0][0]][-1]
        account.cycle, account.nodes = len(found.cycles) - 1, {pod: node for _, pod, node in placed}
        placed.clear()
    elif (
        seen := GIVEN.match(said) or EVICTED.match(said) or LET_IN.match(said) or COMES.match(said) or ENDS.match(said)
    ):
        for account in found.jobs.get(seen[1], [])[-1:]:
            _note_moment(account, seen, moment)


def _note_moment(account: Account, seen: re.Match[str], moment: float) -> None:
    if seen.re is LET_IN:
        account.let_in, account.let_in_again = account.let_in or moment, moment
    elif seen.re is GIVEN:
        account.given[int(seen[2])] = seen[3]
    elif seen.re is EVICTED:
        account.evicted.add(int(seen[2]))
    elif seen.re is ENDS:
        account.ends.setdefault(int(seen[2]), moment)
    elif not account.nodes:
        account.pods_came = moment
