from __future__ import annotations

from typing import Any

import pytest

from compiler.importing.other_queues import translate_queues


def cluster_queue(name: str, *flavors: list[dict[str, Any]], version: str = "v1beta1", **spec: Any) -> dict[str, Any]:
    rows = [{"name": f"f{at}", "resources": resources} for at, resources in enumerate(flavors)]
    groups = [{"coveredResources": ["x"], "flavors": rows}] if rows else []
    metadata = {"name": name}
    return {
        "apiVersion": f"kueue.x-k8s.io/{version}",
        "kind": "ClusterQueue",
        "metadata": metadata,
        "spec": {"resourceGroups": groups, **spec},
    }


def gpus(nominal: int, **limits: Any) -> list[dict[str, Any]]:
    return [{"name": "nvidia.com/gpu", "nominalQuota": nominal, **limits}]


def kai_queue(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def specs(*objects: dict[str, Any]) -> dict[str, Any]:
    return {each["metadata"]["name"]: each["spec"] for each in translate_queues(objects).documents}


def test_quotas_of_flavors_are_added_up_and_what_is_not_lent_is_guaranteed() -> None:
    gpu = "nvidia.com/gpu"
    assert specs(
        cluster_queue("a", gpus(16, lendingLimit=4), gpus(8, borrowingLimit=2), cohort="c"),
        cluster_queue("b", gpus(8, borrowingLimit=4), version="v1beta2", cohortName="c"),
    ) == {
        "a": {"parent": "c", "guarantee": {"resource": {gpu: 12}}, "deserved": {gpu: 24}},
        "b": {"parent": "c", "deserved": {gpu: 8}, "capability": {gpu: 12}},
        "c": {"guarantee": {"resource": {gpu: 12}}, "deserved": {gpu: 32}},
    }


def test_without_a_cohort_there_is_nobody_to_borrow_from() -> None:
    amounts = {"nvidia.com/gpu": 8}
    assert specs(cluster_queue("a", gpus(8))) == {"a": {"deserved": amounts, "capability": amounts}}


def test_a_cohort_with_the_name_of_a_queue_gets_another() -> None:
    cohort = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Cohort", "metadata": {"name": "a"}, "spec": {}}
    found = specs(cluster_queue("a", gpus(8), cohort="a"), cohort)
    assert found["a"]["parent"] == "a-cohort"
    assert found["a-cohort"] == {"deserved": {"nvidia.com/gpu": 8}}


def test_weights_keep_their_ratios_in_whole_numbers() -> None:
    found = specs(
        cluster_queue("a", fairSharing={"weight": "500m"}), cluster_queue("b", fairSharing={"weight": "0.75"})
    )
    assert {name: spec.get("weight", 1) for name, spec in found.items()} == {"a": 2, "b": 3}


def test_order_and_stop_have_annotations_and_the_rest_is_named() -> None:
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ResourceFlavor", "metadata": {"name": "a100"}}
    found = translate_queues(
        [cluster_queue("a", queueingStrategy="StrictFIFO", stopPolicy="Hold", preemption={}, cohort="c"), flavor]
    )
    assert found.documents[0]["metadata"]["annotations"] == {
        "gangplan.dev/order": "strict",
        "gangplan.dev/closed": "true",
    }
    assert found.notes == [
        "preemption of ClusterQueue a: actions, plugins, reclaimable and priorities say who may evict whom",
        "ResourceFlavor a100: its labels and taints are those of nodes",
    ]


def test_queues_of_kai_have_their_units_and_no_limit_is_none() -> None:
    assert specs(
        kai_queue(
            "dept", resources={"gpu": {"quota": 8, "limit": -1}, "cpu": {"quota": 12500}, "memory": {"quota": 2}}
        ),
        kai_queue(
            "team",
            parentQueue="dept",
            priority=5,
            resources={"gpu": {"quota": -1, "limit": 6, "overQuotaWeight": 3}},
        ),
    ) == {
        "dept": {"deserved": {"cpu": "12500m", "memory": 2_000_000, "nvidia.com/gpu": 8}},
        "team": {"parent": "dept", "weight": 3, "priority": 5, "capability": {"nvidia.com/gpu": 6}},
    }


@pytest.mark.parametrize("resources", ["x", {"gpu": 5}, {"gpu": {"quota": "lots"}}])
def test_what_no_server_takes_is_no_amount(resources: object) -> None:
    assert specs(kai_queue("team", resources=resources, priority="high")) == {"team": {}}
