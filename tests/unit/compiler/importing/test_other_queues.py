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
        "c": {"guarantee": {"resource": {gpu: 12}}, "deserved": {gpu: 32}, "capability": {gpu: 32}},
    }


def test_without_a_cohort_there_is_nobody_to_borrow_from() -> None:
    amounts = {"nvidia.com/gpu": 8}
    assert specs(cluster_queue("a", gpus(8))) == {"a": {"deserved": amounts, "capability": amounts}}


def test_a_cohort_with_the_name_of_a_queue_gets_another() -> None:
    cohort = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Cohort", "metadata": {"name": "a"}, "spec": {}}
    found = specs(cluster_queue("a", gpus(8), cohort="a"), cohort)
    assert found["a"]["parent"] == "a-cohort"
    assert found["a-cohort"] == {"deserved": {"nvidia.com/gpu": 8}, "capability": {"nvidia.com/gpu": 8}}


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
            "team", parentQueue="dept", priority=5, resources={"gpu": {"quota": -1, "limit": 6, "overQuotaWeight": 3}}
        ),
    ) == {
        "dept": {"deserved": {"cpu": "12500m", "memory": 2_000_000, "nvidia.com/gpu": 8}},
        "team": {"parent": "dept", "weight": 3, "priority": 5, "capability": {"nvidia.com/gpu": 6}},
    }


def cohort(name: str, *flavors: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    return {**cluster_queue(name, *flavors, **spec), "kind": "Cohort"}


def test_what_a_cohort_may_use_includes_the_quotas_of_its_members() -> None:
    gpu = "nvidia.com/gpu"
    found = specs(
        cohort("org", gpus(4)),
        cohort("unit", gpus(2, borrowingLimit=1), parentName="org"),
        cluster_queue("a", gpus(8, borrowingLimit=90), cohort="unit"),
    )
    assert {name: (spec["deserved"][gpu], spec["capability"][gpu]) for name, spec in found.items()} == {
        "a": (8, 11),  # not 98: its cohorts have no more
        "unit": (10, 11),
        "org": (14, 14),
    }


def test_devices_are_whole_and_what_is_lost_of_them_is_said() -> None:
    found = translate_queues(
        [
            kai_queue("dept", resources={"gpu": {"quota": 2.5, "limit": 3.5}, "cpu": {"quota": 0.5}}),
            kai_queue("team", parentQueue="dept", resources={"gpu": {"quota": 2.5, "limit": 0.5}}),
        ]
    )
    gpu = "nvidia.com/gpu"
    assert [each["spec"] for each in found.documents] == [
        {"deserved": {"cpu": "0m", gpu: 2}, "capability": {gpu: 3}},
        {"parent": "dept", "deserved": {gpu: 2}, "capability": {gpu: 0}},
    ]
    assert found.notes == [
        "2.5 nvidia.com/gpu of queue dept: Volcano counts whole ones; deserved is 2",
        "3.5 nvidia.com/gpu of queue dept: Volcano counts whole ones; capability is 3",
        "2.5 nvidia.com/gpu of queue team: Volcano counts whole ones; deserved is 2",
        "0.5 nvidia.com/gpu of queue team: Volcano counts whole ones; capability is 0",
    ]


def test_a_quota_that_cannot_be_read_is_no_quota_of_0() -> None:
    rows = [*gpus(8), {"name": "cpu", "nominalQuota": "8x"}, {"name": "memory", "nominalQuota": -4}]
    found = translate_queues([cluster_queue("a", rows, gpus(8, lendingLimit="lots"))])
    amounts = {"nvidia.com/gpu": 16}
    assert found.documents[0]["spec"] == {"deserved": amounts, "capability": amounts}
    assert found.notes == [
        "nominalQuota of cpu of ClusterQueue a: '8x' is not a quantity; it is left out",
        "nominalQuota of memory of ClusterQueue a: -4 is negative; it is left out",
        "lendingLimit of nvidia.com/gpu of ClusterQueue a: 'lots' is not a quantity; it is left out",
    ]


def test_queues_of_several_systems_with_one_name_are_several_queues() -> None:
    objects = [
        cluster_queue("a", cohort="a"),
        cluster_queue("a-cohort"),
        kai_queue("a"),
        kai_queue("b", parentQueue="a"),
        kai_queue("taken"),
    ]
    found = translate_queues(objects, {"taken"})
    assert {each["metadata"]["name"]: each["spec"].get("parent") for each in found.documents} == {
        "a": "a-cohort-cohort",
        "a-cohort": None,
        "a-cohort-cohort": None,
        "a-kai": None,
        "b": "a-kai",
        "taken-kai": None,
    }
    assert found.notes == [
        "Cohort a: another queue has this name; it is a-cohort-cohort now",
        "Queue a: another queue has this name; it is a-kai now",
        "Queue taken: another queue has this name; it is taken-kai now",
    ]


def test_weights_of_siblings_beyond_volcanos_keep_their_ratio() -> None:
    weights = {"big": 100, "small": "0.1", "none": 0}
    queues = [cluster_queue(name, fairSharing={"weight": weight}) for name, weight in weights.items()]
    found = translate_queues([*queues, cluster_queue("child", cohort="big")])
    assert {each["metadata"]["name"]: each["spec"].get("weight", 1) for each in found.documents} == {
        "big": 1000,
        "big-cohort": 10,
        "child": 1,
        "none": 1,
        "small": 1,
    }
    assert "weight 0 of ClusterQueue none: Volcano's least weight is 1" in found.notes
    [big, small] = translate_queues([cluster_queue("a", fairSharing={"weight": 200_000}), cluster_queue("b")]).documents
    assert (big["spec"]["weight"], small["spec"]) == (65535, {})


@pytest.mark.parametrize(
    "spec", [{"resourceGroups": 5}, {"resourceGroups": [{"flavors": {"a": 1}}]}, {"cohort": {"a": 1}}]
)
def test_what_no_server_takes_is_no_quota_and_no_parent(spec: dict[str, Any]) -> None:
    assert specs({**cluster_queue("a"), "spec": spec}) == {"a": {}}


@pytest.mark.parametrize("resources", ["x", {"gpu": 5}, {"gpu": {"quota": "lots"}}])
def test_what_no_server_takes_is_no_amount(resources: object) -> None:
    assert specs(kai_queue("team", resources=resources, priority="high")) == {"team": {}}
