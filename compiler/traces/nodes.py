"""Clusters that no repository declares: machines that are only counted, nodes of a table, and outages of nodes."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from compiler.specs.node_spec import NodeSpec
from compiler.traces.reading import MIB
from compiler.traces.trace import TraceError, moment, whole
from solver.problem import Node, Problem, Queue
from solver.simulation.workload import SECOND, Outage

MACHINE = "machine"
"""The resource of a cluster of machines that a trace, or the user, only counts."""
MOST_MACHINES = 1_000_000
"""More would not fit into memory."""
RESOURCES = ("cpu", "memory", "nvidia.com/gpu")
MEANINGS = {"name": "name", "sn": "name", "cpu_milli": "cpu", "memory_mib": "memory", "gpu": "gpu", "model": "model"}
"""Column -> its meaning."""


def unlimited_queue(name: str, width: int) -> Queue:
    """Return a queue without limits in a problem of so many resources."""
    nothing = (None,) * width
    return Queue(name, None, 1, 0, nothing, nothing, nothing, (0,) * width)


def machines_cluster(count: int) -> Problem:
    """Return a cluster of so many equal machines, each of which holds one unit of a job. Raises TraceError for too
    many."""
    if count > MOST_MACHINES:
        raise TraceError(f"the trace states {count} machines. Fix: pass --machines, at most {MOST_MACHINES}")
    nodes = tuple(Node(str(number), 0, None, (1,), (1,)) for number in range(count))
    return Problem((MACHINE,), nodes, (), (unlimited_queue("default", 1),), ())


def read_nodes(path: Path) -> tuple[Problem, Mapping[str, int]]:
    """(the cluster, model of its GPUs -> class of the nodes that have it), from a CSV like that of openb (ATC'23).
    Raises TraceError, with a line for each bad row."""
    rows = [(number, _values(row)) for number, row in _rows(path)]
    models = {model: number for number, model in enumerate(sorted({row.get("model", "") for _, row in rows}))}
    nodes, names, problems = list[Node](), set[str](), list[str]()
    for number, row in rows:
        try:
            amount = _amount(row, "cpu"), _amount(row, "memory") * MIB, _amount(row, "gpu")
            nodes.append(Node(_new_name(row["name"], names), models[row.get("model", "")], None, amount, amount))
        except (KeyError, ValueError) as error:
            problems.append(
                f"{path}:{number}: invalid node: {error}. Fix: write the columns name, cpu_milli, memory_mib and gpu"
            )
    if problems or not nodes:
        raise TraceError("\n".join(problems) or f"{path}: no nodes found")
    return Problem(RESOURCES, tuple(nodes), (), (unlimited_queue("default", len(RESOURCES)),), ()), models


def _new_name(name: str, names: set[str]) -> str:
    """Return the name, and add it to `names`, the taken ones. Raises ValueError for a taken one."""
    if name in names:
        raise ValueError(f"{name!r} is the name of another")
    names.add(name)
    return name


def _node(name: str, nodes: Mapping[str, int]) -> int:
    if name not in nodes:
        raise ValueError(f"unknown node {name!r}")
    return nodes[name]


def _amount(row: Mapping[str, str], meaning: str) -> int:
    if (found := whole(row[meaning], meaning)) < 0:
        raise ValueError(f"invalid {meaning} {row[meaning]!r}: negative")
    return found


def read_outages(path: Path, cluster: Problem) -> list[Outage]:
    """Outages from a CSV: node, start, end in seconds since the first arrival, and for maintenance when it was
    announced. Raises TraceError, with a line for each bad row."""
    names = {node.name: n for n, node in enumerate(cluster.nodes)}
    found, problems = list[Outage](), list[str]()
    for number, row in _rows(path):
        try:
            moments = ("start", "end", *(("announced",) if row.get("announced") else ()))
            outage = Outage(_node(row["node"], names), *(round(moment(row[name], name) * SECOND) for name in moments))
        except (KeyError, ValueError) as error:
            problems.append(
                f"{path}:{number}: invalid outage: {error}. Fix: write the columns node (of the cluster), start and end"
            )
            continue
        if 0 <= outage.start < outage.end and 0 <= (outage.known or 0) <= outage.start:
            found.append(outage)
        else:
            problems.append(
                f"{path}:{number}: invalid outage: it must start at 0 or later, end after its start, and be announced, "
                "if it is, at 0 or later and not after its start"
            )
    if problems:
        raise TraceError("\n".join(problems))
    return found


def declared_maintenance(specs: Iterable[NodeSpec], cluster: Problem, origin: float) -> list[Outage]:
    """Return the maintenance that node pools declare, which is known from the beginning. origin: the date at which the
    replay begins, in seconds since 1970; nothing where it has none (0)."""
    names = {node.name: n for n, node in enumerate(cluster.nodes)} if origin else {}
    found = list[Outage]()
    for spec in specs:
        if spec.name in names:
            moments = [[max(0, round((at - origin) * SECOND)) for at in window] for window in spec.maintenance_windows]
            found += [Outage(names[spec.name], start, end, known=0) for start, end in moments if end]
    return found


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Raises TraceError for a file that is not a table."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as lines:
            for number, row in enumerate(csv.DictReader(lines), start=2):
                yield number, {str(name).strip().lower(): str(value or "").strip() for name, value in row.items()}
    except (UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"{path}: not a CSV: {error}") from error


def _values(row: Mapping[str, str]) -> dict[str, str]:
    """Return the row by meaning."""
    return {MEANINGS[name]: value for name, value in row.items() if name in MEANINGS}
