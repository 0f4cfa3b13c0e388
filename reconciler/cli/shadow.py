"""`gangplan shadow`: for a cluster that another scheduler places, without a right to write."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path
from typing import Any

import click
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from compiler.cli.inputs import ANY_FILE, executor_option, output_option, write_file
from compiler.fields.times import rfc3339
from compiler.shadow import Devices, Look, Shadowed, look_at, page_of
from reconciler.cli import add_kubeconfig_options
from reconciler.cli.connection import TimeLimitError, open_client, time_limit, timeout_option
from reconciler.cli.importing import cluster_objects
from reconciler.cluster.client import ApiError, Retry
from reconciler.cluster.preflight import one_line
from reconciler.threads.http import HttpServer
from solver.options import Options

HOUR = 3600.0


@dataclass(slots=True)
class Day:
    """Device-hours of one day, in UTC. unused: certainly, on which a gang that waited could have run. gained: by a
    plan of the same jobs from empty, which is an estimate, since gangplan's jobs would have ended at other times."""

    date: str
    looks: int = 0
    unused: dict[str, float] = field(default_factory=dict)
    gained: dict[str, float] = field(default_factory=dict)

    def add(self, unused: Devices, gained: Devices, seconds: float) -> None:
        """Count a look, and so many seconds before it."""
        self.looks += 1
        for hours, devices in ((self.unused, unused), (self.gained, gained)):
            for name, number in devices.items():
                hours[name] = hours.get(name, 0.0) + number * seconds / HOUR

    def data(self) -> dict[str, Any]:
        """As data, rounded."""
        unused, gained = (
            {name: round(number, 3) for name, number in sorted(hours.items())} for hours in (self.unused, self.gained)
        )
        return {"date": self.date, "looks": self.looks, "unusedHours": unused, "gainedHours": gained}


class Shadow:
    """Totals of the looks so far. Hours count from one look to the next: a state at both looks held in between. A gang
    that was just created, or for which room was just freed, is not counted as waiting by the scheduler's fault."""

    def __init__(self) -> None:
        self.day = Day("")
        self._before: tuple[Look, float] | None = None

    def miss(self) -> None:
        """A look failed: nothing is known of the time around it."""
        self._before = None

    def enter(self, look: Look, clock: int, at: float) -> dict[str, Any]:
        """Count the look, and return it as data. clock: seconds since the epoch; at: its begin on a monotonic clock."""
        before, since = (None, at) if self._before is None else self._before
        startable, gained = look.startable_since(before), look.gained()
        unused = Counter[str]()
        for devices in startable.values():
            unused.update(devices)
        if (date := rfc3339(clock)[:10]) != self.day.date:
            self.day = Day(date)
        self.day.add(unused, gained, at - since)
        self._before = look, at
        return {
            "time": rfc3339(clock),
            "now": asdict(look.now),
            "startable": {name: dict(devices) for name, devices in startable.items()},
            "unused": dict(unused),
            "fromEmpty": asdict(look.from_empty),
            "gained": dict(gained),
            "day": self.day.data(),
            "leftOut": list(look.left_out),
        }


def look_text(row: Mapping[str, Any]) -> str:
    """Return a look as three to five lines."""
    day = row["day"]
    lines = [f"{row['time']}  now: {_use_text(row['now'])}"]
    if row["startable"]:
        names = ", ".join(f"{name} ({_amounts(found)})" for name, found in row["startable"].items())
        lines.append(f"  would start now in free room, nobody evicted: {names}")
    lines.append(f"  the same jobs, planned from empty: {_use_text(row['fromEmpty'])}")
    unused, gained = _amounts(day["unusedHours"]), _amounts(day["gainedHours"])
    lines.append(
        f"  hours of {day['date']} in {day['looks']} looks: {unused} unused for certain; from empty {gained} more"
    )
    if errors := row["leftOut"]:
        more = f" and {len(errors) - 3} more" if len(errors) > 3 else ""
        lines.append(f"  {len(errors)} errors leave objects out: {'; '.join(errors[:3])}{more}")
    return "\n".join(lines)


def _use_text(use: Mapping[str, Any]) -> str:
    spread = "" if use["domains"] is None else f", {use['domains']:.2f} domains a gang"
    owed = _amounts({name: number for name, number in use["owed"].items() if number})
    return (
        f"{use['running']} run, {use['waiting']} wait; {_amounts(use['devices'])} held, {owed} owed to queues{spread}"
    )


def _amounts(devices: Mapping[str, float]) -> str:
    return " and ".join(f"{number:g} {name}" for name, number in devices.items()) or "nothing"


_GAUGES: Mapping[str, tuple[str, ...]] = {
    "devices": ("Devices that gangs hold, now and planned from empty.", "plan", "resource"),
    "gangs_waiting": ("Gangs that wait, now and planned from empty.", "plan"),
    "domains": ("Leaf domains of a gang of several pods, in the mean.", "plan"),
    "devices_owed": ("Devices that queues deserve, ask for and do not hold.", "plan", "resource"),
    "devices_unused": ("Devices on which gangs that wait could run now.", "resource"),
    "device_hours": ("Device-hours of the day: unused, and gained from empty.", "of", "resource"),
}
"""Name -> its description and labels."""


class Metrics:
    """The metrics for Prometheus: the last look only."""

    def __init__(self) -> None:
        self._text = ""

    def enter(self, row: Mapping[str, Any]) -> None:
        """Set them to a look."""
        registry = CollectorRegistry()
        gauges = {
            name: Gauge(f"gangplan_shadow_{name}", text, labels, registry=registry)
            for name, (text, *labels) in _GAUGES.items()
        }
        for plan in ("now", "fromEmpty"):
            use = row[plan]
            gauges["gangs_waiting"].labels(plan).set(use["waiting"])
            if use["domains"] is not None:
                gauges["domains"].labels(plan).set(use["domains"])
            for name, number in use["devices"].items():
                gauges["devices"].labels(plan, name).set(number)
                gauges["devices_owed"].labels(plan, name).set(use["owed"][name])
        for name in row["gained"]:
            gauges["devices_unused"].labels(name).set(row["unused"].get(name, 0))
            for of in ("unused", "gained"):
                gauges["device_hours"].labels(of, name).set(row["day"][f"{of}Hours"].get(name, 0))
        self._text = generate_latest(registry).decode()

    def answer(self, request: BaseHTTPRequestHandler) -> tuple[int, str]:
        """Return the answer to a request: /metrics and nothing else."""
        if request.path.partition("?")[0] != "/metrics":
            return 404, "not found\n"
        return 200, self._text


@click.command()
@click.option("--every", default=60.0, show_default=True, type=click.FloatRange(min=1), help="Seconds between looks")
@click.option("--looks", type=click.IntRange(min=1), help="Stop after this many looks [default: until interrupted]")
@timeout_option(120.0, "Time limit of one look, in seconds")
@click.option("--listen", default="", metavar="HOST:PORT", help="Serve /metrics")
@click.option("--page", type=ANY_FILE, help="Write the report page at each look")
@output_option("json")
@executor_option
@add_kubeconfig_options
def shadow(
    every: float,
    looks: int | None,
    timeout: float,
    listen: str,
    page: Path | None,
    output: str,
    executor: str,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Watch a cluster that another scheduler places, and show what gangplan would do with the same jobs. It writes
    nothing to the cluster (`gangplan rbac --read-only` prints the RBAC permissions).

    Certain is what a gang could use that waits at two looks, with free room for it at both. A plan of all jobs
    from an empty cluster is an estimate. With -o json each look is one line.
    """
    from compiler.cli.executor import open_executor

    client, seen, metrics, succeeded = open_client(kubeconfig, context), Shadow(), Metrics(), False
    if listen:
        try:
            HttpServer("metrics", listen, "GET", metrics.answer)
        except (OSError, ValueError) as error:
            raise click.ClickException(f"--listen {listen}: {one_line(error)}") from error
    with open_executor(executor) as mapper:
        for began in _begins(every, looks):
            try:
                with time_limit(timeout):
                    objects, clock = [*cluster_objects(client)], int(time.time())
                    cluster = Shadowed.of(objects, clock)
                    look = look_at(cluster, Options(time_limit=timeout), mapper)
                    picture = None if page is None else page_of(cluster, mapper)
            except (ApiError, Retry, TimeLimitError, ValueError, RuntimeError) as error:
                seen.miss()
                click.echo(f"{rfc3339(int(time.time()))}  no look: {one_line(error)}", err=True)
                continue
            row, succeeded = seen.enter(look, clock, began), True
            metrics.enter(row)
            if page is not None and picture is not None:
                write_file(page, picture)
            click.echo(json.dumps(row, sort_keys=True) if output == "json" else look_text(row))
    if not succeeded:
        raise click.ClickException("no look succeeded")


def _begins(every: float, looks: int | None) -> Iterator[float]:
    """Wait for the begin of each look and yield it, on a monotonic clock."""
    for number in count(1):
        began = time.monotonic()
        yield began
        if number == looks:
            return
        time.sleep(max(0.0, began + every - time.monotonic()))
