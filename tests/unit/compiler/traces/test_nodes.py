"""Nodes and outages of a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.traces.nodes import MOST_MACHINES, machines_cluster, read_nodes, read_outages
from compiler.traces.trace import TraceError
from solver.simulation.workload import SECOND, Outage

NODES = "name,cpu_milli,memory_mib,gpu\n"
OUTAGES = "node,start,end,announced\n"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("x,1,1,-1\n", "nodes:2: invalid node: invalid gpu '-1': negative. Fix:"),
        ("x,1,1,1\nx,1,1,1\n", "nodes:3: invalid node: 'x' is the name of another"),
        ("x,1,1,9e30\n", "nodes:2: invalid node: invalid gpu '9e30': too large"),
        ("\xff", "nodes: not a CSV: 'utf-8'"),
    ],
)
def test_invalid_nodes_are_named(tmp_path: Path, rows: str, said: str) -> None:
    (tmp_path / "nodes").write_bytes((NODES + rows).encode("latin-1"))
    with pytest.raises(TraceError, match=said):
        read_nodes(tmp_path / "nodes")


def test_whole_numbers_may_have_a_point(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text(f"{NODES}x,1000,1,8.0\n")
    cluster, _ = read_nodes(tmp_path / "nodes")
    assert cluster.nodes[0].capacity == (1000, 1 << 20, 8)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("9,0,1\n", "outages:2: invalid outage: unknown node '9'. Fix:"),
        ("0,0,inf\n", "outages:2: invalid outage: invalid end 'inf': not a number"),
        ("0,5,5\n", "outages:2: invalid outage: it must start at 0 or later"),
        ("0,5,9,6\n", "and be announced, if it is, at 0 or later and not after its start"),
        ("0,5,9,soon\n", "outages:2: invalid outage: invalid announced 'soon'"),
    ],
)
def test_invalid_outages_are_named(tmp_path: Path, rows: str, said: str) -> None:
    (tmp_path / "outages").write_text(OUTAGES + rows)
    with pytest.raises(TraceError, match=said):
        read_outages(tmp_path / "outages", machines_cluster(2))


def test_an_outage_that_is_announced_is_maintenance(tmp_path: Path) -> None:
    (tmp_path / "outages").write_text(OUTAGES + "0,5,9,\n1,5,9,2\n")
    assert read_outages(tmp_path / "outages", machines_cluster(2)) == [
        Outage(0, 5 * SECOND, 9 * SECOND),
        Outage(1, 5 * SECOND, 9 * SECOND, 2 * SECOND),
    ]


def test_more_machines_than_memory_holds_are_refused() -> None:
    with pytest.raises(TraceError, match="Fix: pass --machines"):
        machines_cluster(MOST_MACHINES + 1)
