"""A NodePool's nodes and hypernodes."""

from __future__ import annotations

from compiler.reading import read_specs
from compiler.repository.tree import Repository

POOL = """apiVersion: gangplan.dev/v1alpha1
kind: Cluster
metadata: {name: lab}
spec: {}
---
apiVersion: gangplan.dev/v1alpha1
kind: NodePool
metadata: {name: gpu}
spec: {count: 2, capacity: {cpu: 8}}
"""


def test_a_pool_keeps_its_nodes_until_its_document_changes() -> None:
    first, again, larger = (
        read_specs(Repository({"cluster-specs/lab/pool.yaml": text.encode()})).nodes
        for text in (POOL, POOL, POOL.replace("cpu: 8", "cpu: 9"))
    )
    assert len(first) == 2
    assert all(a is b for a, b in zip(first, again, strict=True))
    assert [node.allocatable["cpu"] for node in larger] == [9000, 9000]
