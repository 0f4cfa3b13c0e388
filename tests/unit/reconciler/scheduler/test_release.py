"""The release of Volcano that runs: read from images of its scheduler, compared with the Cluster, and judged."""

from __future__ import annotations

import pytest

from compiler.specs.cluster_spec import VolcanoVersion
from reconciler.changes.results import Condition
from reconciler.cluster.objects import Object, ref_of
from reconciler.observation.observe import Observation, running_releases
from reconciler.planning.branch import Target
from reconciler.planning.snapshot import RepositorySettings, Snapshot
from reconciler.report.status_text import condition_sentence
from reconciler.scheduler.part import release_conditions
from tests.builders.live import live

ADVISORY = "GHSA-j38h-7pfq-cxmw"


def scheduler(
    tag: str, namespace: str = "volcano-system", name: str = "volcano-scheduler-1", phase: str = ""
) -> Object:
    image = f"docker.io/volcanosh/vc-scheduler:{tag}"
    pod = live("v1", "Pod", name, namespace=namespace)
    return {**pod, "spec": {"containers": [{"image": image}]}, "status": {"phase": phase}}


def conditions(*objects: Object, declared: str = "1.15", namespace: str = "volcano-system") -> list[Condition]:
    settings = RepositorySettings(volcano=declared, scheduler_namespace=namespace)
    target = Target(snapshot=Snapshot("c0ffee", True, settings=settings))
    return [*release_conditions(Observation({ref_of(item).key: item for item in objects}, frozenset()), target)]


def queue(**spec: object) -> Object:
    return {**live("scheduling.volcano.sh/v1beta1", "Queue", "q", namespace=""), "spec": spec}


def test_a_vulnerable_release_is_named_by_its_advisory_and_the_release_with_the_fix() -> None:
    vulnerable, _ = conditions(scheduler("v1.15.1"))
    assert (vulnerable.type, vulnerable.status, vulnerable.reason) == ("VolcanoVulnerable", True, "KnownVulnerability")
    assert ADVISORY in vulnerable.message
    assert "1.15.2" in vulnerable.message
    assert condition_sentence(vulnerable.type, True)


@pytest.mark.parametrize(
    ("tags", "declared", "vulnerable", "different"),
    [
        ([], "1.15.0", (True, "KnownVulnerability"), (False, "NotKnown")),
        (["latest"], "1.15.1", (True, "KnownVulnerability"), (False, "NotKnown")),
        (["v1.15.2"], "1.15.1", (False, "None"), (True, "OtherRelease")),
        ([], "1.15", (False, "NotKnown"), (False, "NotKnown")),
        (["v1.16.0"], "1.16", (False, "None"), (False, "None")),
        (["v1.16.0"], "1.15", (False, "None"), (True, "OtherRelease")),
    ],
)
def test_the_image_counts_before_what_is_declared_and_of_an_unknown_patch_nothing_is_claimed(
    tags: list[str], declared: str, vulnerable: tuple[bool, str], different: tuple[bool, str]
) -> None:
    found = conditions(*map(scheduler, tags), declared=declared)
    assert [(each.status, each.reason) for each in found] == [vulnerable, different]
    assert [bool(each.message) for each in found] == [vulnerable[0], different[0]]


def test_what_differs_names_both_releases_and_the_fix() -> None:
    assert 'write volcano: "1.15.2"' in conditions(scheduler("v1.15.2"), declared="1.15.1")[1].message
    said = conditions(scheduler("v1.16.0"))[1].message
    assert "Volcano 1.16.0 runs, and plans follow the rules of 1.15" in said
    assert "the releases that gangplan knows" in conditions(scheduler("v1.17.0"))[1].message
    assert [each.reason for each in release_conditions(Observation({}, frozenset()), Target())] == ["NotKnown"] * 2


def test_the_overflow_counts_where_a_queue_limits_claimed_devices() -> None:
    quota = queue(guarantee={"resource": {"memory.deviceclass/gpu.nvidia.com": "8Gi"}})
    assert not conditions(scheduler("v1.15.2"), queue())[0].status
    vulnerable, _ = conditions(scheduler("v1.15.2"), quota)
    assert vulnerable.status
    assert "volcano-sh/volcano#5625" in vulnerable.message


def test_pods_of_other_namespaces_and_finished_ones_do_not_count() -> None:
    """A tenant may start a pod with whatever image."""
    others = [scheduler("v1.15.1", namespace) for namespace in ("team", "volcano-system-x", "volcano-systems", "a")]
    found = Observation(
        {
            ref_of(item).key: item
            for item in (
                *others,
                scheduler("v1.15.2", name="new"),
                scheduler("v1.15.3", name="newer"),
                scheduler("v1.15.0", name="old", phase="Succeeded"),
            )
        },
        frozenset(),
    )
    assert running_releases(found, "volcano-system") == (VolcanoVersion(15, 2), VolcanoVersion(15, 3))
    assert running_releases(found, "nowhere") == ()


def test_the_namespace_is_that_of_the_scheduler_configuration() -> None:
    assert conditions(scheduler("v1.15.1", "batch"), namespace="batch")[0].status
    assert not conditions(scheduler("v1.15.1", "batch"))[0].status
