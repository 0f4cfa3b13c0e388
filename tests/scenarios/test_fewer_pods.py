"""Fewer pods are told with every field that has to follow, by whatever it is called in the kind; typed, the job
starts."""

from __future__ import annotations

import pytest

from compiler.explain.statements import CodedMessage
from tests.builders.beside import beside
from tests.scenarios.test_reasons_to_act_on import compiled, decided, repaired
from tests.scenarios.test_small_repositories import POD

MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
CASES = beside(__file__)


def pool(count: int) -> str:
    """Nodes with cpu and memory in addition to the GPUs, for what operators add to the pods."""
    spec = f"{{count: {count}, capacity: {{cpu: 8, memory: 16Gi, nvidia.com/gpu: 8}}}}"
    return f"apiVersion: gangplan.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: h100}}\nspec: {spec}\n"


def fewer_pods(*documents: str) -> CodedMessage:
    (repair,) = (r for r in decided(compiled(*documents)).repairs if r.code == "GR105")
    return repair


def written(kind: str, pods: int) -> str:
    members = "".join(CASES["member"].replace("NUMBER", str(number)) for number in range(pods))
    text = str(CASES["kinds"][kind]["text"]).replace("MEMBERS\n", members)
    return text.replace("TEMPLATE", POD).replace("PODS", str(pods)).replace("LEAST", str(pods))


@pytest.mark.parametrize("kind", CASES["kinds"])
def test_fewer_pods_are_told_with_all_that_goes_with_them_and_typed_they_start(kind: str) -> None:
    nodes = pool(4)
    repair = fewer_pods(nodes, written(kind, 6))
    assert repair.message == CASES["kinds"][kind]["told"]
    if kind == "PodGroup":  # a pod is a document of its own, so that no field says their number
        assert decided(compiled(nodes, written(kind, 4))).action == "start"
    else:
        assert repaired(nodes, written(kind, 6), code="GR105").action == "start"


def test_an_edit_is_named_by_its_whole_path_as_it_is_to_be_written() -> None:
    repair = fewer_pods(pool(4), written("Deployment", 6))
    assert repair.facts["edits"] == (f"metadata.annotations['{MIN_MEMBER}']: \"4\"",)


def test_pods_of_several_hosts_are_counted_by_hosts_where_the_kind_does() -> None:
    groups = written("RayCluster", 3).replace("groupName: w", "groupName: w, numOfHosts: 2")
    repair = fewer_pods(pool(5), groups)
    assert repair.message == "4 pods of role w instead of 6, with minReplicas: 2, replicas: 2"
    assert repaired(pool(5), groups, code="GR105").action == "start"


def test_an_autoscaled_group_is_told_its_least_number() -> None:
    text = written("RayCluster", 6).replace("spec:\n", "spec:\n  enableInTreeAutoscaling: true\n", 1)
    elastic = text.replace("minReplicas: 6", "minReplicas: 5")
    repair = fewer_pods(pool(4), elastic)
    assert repair.message == "at least 4 pods of role w instead of 5: minReplicas: 4"
    assert repaired(pool(4), elastic, code="GR105").action == "start"
