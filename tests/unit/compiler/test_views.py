"""What a plan as text leads with."""

from __future__ import annotations

from pathlib import Path

from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from compiler.views.text import plan_text

COLOCATION = Path(__file__).parents[2] / "fixtures" / "strangers" / "colocation"


def test_totals_lead_with_devices_then_cpus_and_lent_memory_is_an_amount_of_bytes() -> None:
    text = plan_text(compile_repository(Repository.from_directory(COLOCATION)))
    assert text.startswith("Cluster c: 1 node, 8 nvidia.com/gpu\n")
    totals = [line.split() for line in text.partition("Totals\n")[2].partition("\n\n")[0].splitlines()]
    names = ["nvidia.com/gpu", "cpu", "memory", "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"]
    assert [row[0] for row in totals] == names
    assert totals[-1][2:5] == ["0", "of", "64Gi"]
