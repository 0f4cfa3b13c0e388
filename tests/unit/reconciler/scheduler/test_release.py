"""The release of Volcano that runs: read from images of its scheduler, compared with the Cluster, and judged."""

from __future__ import annotations

import pytest

from compiler.emit.manifest import Manifest
from compiler.specs.cluster_spec import VolcanoVersion
from reconciler.changes.results import Condition
from reconciler.cluster.objects import Object, ref_of
from reconciler.observation.observe import Observation
from reconciler.planning.branch import Target
from reconciler.planning.snapshot import RepositorySettings, Snapshot
from reconciler.report.status import condition_sentence
from reconciler.scheduler.release import release_conditions, running_releases
from tests.builders.live import live
from tests.builders.writing import config_map

ADVISORY = "GHSA-j38h-7pfq-cxmw"


def scheduler(
    tag: str, namespace: str = "volcano-system", name: str = "volcano-scheduler-1", phase: str = ""
) -> Object:
    image = f"docker.io/volcanosh/vc-scheduler:{tag}"
    pod = live("v1", "Pod", name, namespace=namespace)
    return {**pod, "spec": {"containers": [{"image": image}]}, "status": {"phase": phase}}


def conditions(*objects: Object, declared: str = "1.15", manifests: tuple[Manifest, ...] = ()) -> list[Condition]:
    settings = RepositorySettings(volcano=declared)
    target = Target(snapshot=Snapshot("c0ffee", True, manifests=manifests, settings=settings))
    return [*release_conditions(Observation({ref_of(item).key: item for item in objects}, frozenset()), target)]


def queue(**spec: object) -> Object:
    return {**live("scheduling.volcano.sh/v1beta1", "Queue", "q", namespace=""), "spec": spec}


def test_a_vulnerable_release_is_named_by_its_advisory_and_the_release_with_the_fix() -> None:
    vulnerable, _ = conditions(scheduler("v1.15.1"))
    assert (vulnerable.type, vulnerable.status, vulnerable.reason) == ("VolcanoVulnerable", True, "KnownVulnerability")
    assert ADVISORY in vulnerable.message
    assert "1.15.2" in vulnerable.message
    assert condition_sentence(vulnerable.type, True)


@pytest.mark.parametrize("declared", ["1.15.0", "1.15.1"])
def test_without_an_image_that_names_one_the_declared_release_counts(declared: str) -> None:
    for pods in ((), (scheduler("latest"),)):
        vulnerable, different = conditions(*pods, declared=declared)
        assert vulnerable.status
        assert (different.status, different.reason) == (False, "NotKnown")


def test_the_image_counts_more_than_what_is_declared() -> None:
    vulnerable, different = conditions(scheduler("v1.15.2"), declared="1.15.1")
    assert (vulnerable.status, vulnerable.reason) == (False, "None")
    assert different.status
    assert 'write volcano: "1.15.2"' in different.message


def test_of_an_unknown_patch_nothing_is_claimed() -> None:
    assert [(each.status, each.reason) for each in conditions(declared="1.15")] == [(False, "NotKnown")] * 2
    assert not any(each.message for each in conditions(declared="1.15"))
    assert [each.reason for each in release_conditions(Observation({}, frozenset()), Target())] == ["NotKnown"] * 2


def test_the_overflow_counts_where_a_queue_limits_claimed_devices() -> None:
    quota = queue(guarantee={"resource": {"memory.deviceclass/gpu.nvidia.com": "8Gi"}})
    assert not conditions(scheduler("v1.15.2"), queue())[0].status
    vulnerable, _ = conditions(scheduler("v1.15.2"), quota)
    assert vulnerable.status
    assert "volcano-sh/volcano#5625" in vulnerable.message


def test_another_minor_release_than_the_declared_one_is_reported_and_its_patch_only_where_one_is_declared() -> None:
    assert not conditions(scheduler("v1.16.0"), declared="1.16")[1].status
    different = conditions(scheduler("v1.16.0"), declared="1.15")[1]
    assert (different.status, different.reason) == (True, "OtherRelease")
    assert "Volcano 1.16.0 runs, and plans follow the rules of 1.15" in different.message
    assert "the releases that gangplan knows" in conditions(scheduler("v1.17.0"))[1].message


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
    conf = config_map("conf", {"volcano-scheduler.conf": "actions: allocate"}, namespace="batch")
    manifest = Manifest(3, conf, "c.yaml:1")
    assert conditions(scheduler("v1.15.1", "batch"), manifests=(manifest,))[0].status
    assert not conditions(scheduler("v1.15.1", "batch"))[0].status
