"""`gangplan shadow`: for a cluster that another scheduler places, without a right to write."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path
from typing import Any

import click
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from compiler.cli.inputs import ANY_FILE, executor_option, output_option, write_file
from compiler.fields.timestamp import rfc3339
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
        """Count a look that holds for so many seconds."""
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
    """What the looks so far say. Gangs that waited at the last look are known by name: that one which has just come
    waits is no fault of the scheduler."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.day = seconds, Day("")
        self._waited = frozenset[str]()

    def enter(self, look: Look, clock: int) -> dict[str, Any]:
        """Count the look, and return it as data."""
        unused, gained = look.unused(self._waited), look.gained()
        if (date := rfc3339(clock)[:10]) != self.day.date:
            self.day = Day(date)
        self.day.add(unused, gained, self.seconds)
        startable = {name: dict(found) for name, found in look.startable.items() if name in self._waited}
        self._waited = look.waiting
        return {
            "time": rfc3339(clock),
            "now": asdict(look.now),
            "startable": startable,
            "unused": dict(unused),
            "fromEmpty": asdict(look.from_empty),
            "gained": dict(gained),
            "day": self.day.data(),
        }


def look_text(row: Mapping[str, Any]) -> str:
    """A look as three or four lines."""
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
    return "\n".join(lines)


def _use_text(use: Mapping[str, Any]) -> str:
    spread = "" if use["domains"] is None else f", {use['domains']:.2f} domains a gang"
    owed = _amounts({name: number for name, number in use["owed"].items() if number})
    return (
        f"{use['running']} run, {use['waiting']} wait; {_amounts(use['devices'])} held, {owed} owed to queues{spread}"
    )


def _amounts(devices: Mapping[str, float]) -> str:
    return " and ".join(f"{number:g} {name}" for name, number in devices.items()) or "nothing"


class Gauges:
    """What Prometheus reads."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.devices = self._gauge(
            "devices", "Devices that gangs hold, now and planned from empty.", "plan", "resource"
        )
        self.waiting = self._gauge("gangs_waiting", "Gangs that wait, now and planned from empty.", "plan")
        self.domains = self._gauge("domains", "Leaf domains of a gang of several pods, in the mean.", "plan")
        self.owed = self._gauge(
            "devices_owed", "Devices that queues deserve, ask for and do not hold.", "plan", "resource"
        )
        self.unused = self._gauge("devices_unused", "Devices on which gangs that wait could run now.", "resource")
        self.hours = self._gauge(
            "device_hours", "Device-hours of the day: unused, and gained from empty.", "of", "resource"
        )

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"gangplan_shadow_{name}", text, labels, registry=self.registry)

    def enter(self, row: Mapping[str, Any]) -> None:
        """Set all of them to a look."""
        for plan in ("now", "fromEmpty"):
            use = row[plan]
            self.waiting.labels(plan).set(use["waiting"])
            self.domains.labels(plan).set(use["domains"] or 0)
            for name, number in use["devices"].items():
                self.devices.labels(plan, name).set(number)
                self.owed.labels(plan, name).set(use["owed"][name])
        for name in row["now"]["devices"]:
            self.unused.labels(name).set(row["unused"].get(name, 0))
            for of in ("unused", "gained"):
                self.hours.labels(of, name).set(row["day"][f"{of}Hours"].get(name, 0))

    def answer(self, request: BaseHTTPRequestHandler) -> tuple[int, str]:
        """The answer to a request: /metrics and nothing else."""
        if request.path.partition("?")[0] != "/metrics":
            return 404, "not found\n"
        return 200, generate_latest(self.registry).decode()


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

    Certain is what a gang could use that waits at two looks while there is free room for it. A plan of all jobs
    from an empty cluster is an estimate. With -o json each look is one line.
    """
    from compiler.cli.executor import open_executor

    client, seen, gauges = open_client(kubeconfig, context), Shadow(every), Gauges()
    if listen:
        HttpServer("metrics", listen, "GET", gauges.answer)
    with open_executor(executor) as mapper:
        for number in count():
            if number == looks:
                break
            if number:
                time.sleep(every)
            try:
                with time_limit(timeout):
                    objects, clock = [*cluster_objects(client)], int(time.time())
                    cluster = Shadowed.of(objects, clock)
                    look = look_at(cluster, Options(time_limit=timeout), mapper)
                    picture = None if page is None else page_of(cluster, mapper)
            except (ApiError, Retry, TimeLimitError, ValueError, RuntimeError) as error:
                click.echo(f"{rfc3339(int(time.time()))}  no look: {one_line(error)}", err=True)
                continue
            row = seen.enter(look, clock)
            gauges.enter(row)
            if page is not None and picture is not None:
                write_file(page, picture)
            click.echo(json.dumps(row, sort_keys=True) if output == "json" else look_text(row))
