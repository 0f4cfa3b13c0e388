"""Repairs of groups that MetaX's annotations ask for are said in what their owner can write there."""

from __future__ import annotations

import pytest

from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository

POOL = (
    "apiVersion: gangplan.dev/v1alpha1\nkind: NodePool\nmetadata: {name: m}\nspec:\n  count: 8\n"
    "  capacity: {cpu: 64, metax-tech.com/gpu: 8}\n  topology: [{name: sn, size: 2}, {name: spine, size: 2}]\n"
)
GROUP, ATOMIC = "metax-tech.com/gpu-group-size", "metax-tech.com/atomic-gpu-group-size"


def repairs(annotations: str, pods: int = 4) -> list[tuple[str, str]]:
    """Of pods of 8 GPUs in supernodes of two such nodes."""
    container = "{name: main, image: a, resources: {limits: {metax-tech.com/gpu: 8}}}"
    template = f"{{metadata: {{annotations: {{{annotations}}}}}, spec: {{containers: [{container}]}}}}"
    job = (
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: u, namespace: t}\n"
        f"spec: {{tasks: [{{name: w, replicas: {pods}, template: {template}}}]}}\n"
    )
    outcome = compile_repository(Repository({"cluster-specs/c/pool.yaml": POOL.encode(), "jobs/u.yaml": job.encode()}))
    (decided,) = outcome.decisions
    assert [reason.code for reason in decided.reasons] == ["GW109"]
    return [(repair.code, repair.message) for repair in decided.repairs]


@pytest.mark.parametrize("annotations", [f'{GROUP}: "32"', f'{GROUP}: "32", {ATOMIC}: "32"'])
def test_a_group_larger_than_a_supernode_becomes_a_wish_or_smaller(annotations: str) -> None:
    """A supernode has 16 GPUs. Nobody can write another tier there."""
    assert repairs(annotations) == [
        ("GR107", f"{ATOMIC}: 8, so that a whole group in one supernode is a wish"),
        ("GR106", f"{GROUP}: 16, groups of 2 pods instead of 4"),
    ]


def test_an_atomic_group_becomes_smaller_by_its_own_annotation() -> None:
    """A group of 64 GPUs only should be in one supernode, the atomic ones of 32 must be, and a supernode has 16."""
    assert repairs(f'{GROUP}: "64", {ATOMIC}: "32"', 8) == [
        ("GR107", f"{ATOMIC}: 8, so that a whole group in one supernode is a wish"),
        ("GR106", f"{ATOMIC}: 16, groups of 2 pods instead of 4"),
    ]
