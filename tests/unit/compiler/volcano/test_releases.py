"""What is known of releases of Volcano: which one an image is of, and which vulnerabilities it has."""

from __future__ import annotations

import pytest

from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.specs.cluster_spec import VolcanoVersion
from compiler.volcano.releases import CHANGES, release_changes, release_of_image, vulnerabilities_of

ADVISORY, OVERFLOW = "GHSA-j38h-7pfq-cxmw", "volcano-sh/volcano#5625"


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("docker.io/volcanosh/vc-scheduler:v1.15.1", VolcanoVersion(15, 1)),
        ("registry.example.com:5000/volcano/vc-scheduler:1.16.0@sha256:00ff", VolcanoVersion(16, 0)),
        ("vc-scheduler-arm64:v1.15.2-rc.1", VolcanoVersion(15, 2)),
        ("volcano/volcano-scheduler:v1.14.0", VolcanoVersion(14, 0)),
        ("volcanosh/vc-scheduler:latest", None),
        ("volcanosh/vc-scheduler@sha256:00ff", None),
        ("volcanosh/vc-scheduler:v2.15.1", None),
        ("volcanosh/vc-scheduler:v1.15", None),
        ("volcanosh/vc-controller-manager:v1.15.1", None),
        ("example.com/my-vc-scheduler:v1.15.1", None),
        ("", None),
    ],
)
def test_the_release_is_read_from_the_tag_of_a_scheduler_image(image: str, release: VolcanoVersion | None) -> None:
    assert release_of_image(image) == release


@pytest.mark.parametrize(
    ("release", "names", "with_quotas"),
    [
        ("1.15.0", [ADVISORY], [ADVISORY, OVERFLOW]),
        ("1.15.1", [ADVISORY], [ADVISORY, OVERFLOW]),
        ("1.15.2", [], [OVERFLOW]),
        ("1.15.3", [], []),
        ("1.16.0", [], []),
        ("1.15", [], []),
    ],
)
def test_vulnerabilities_follow_the_patch_and_the_overflow_needs_device_quotas(
    release: str, names: list[str], with_quotas: list[str]
) -> None:
    version = VolcanoVersion.of_text(release)
    assert [each.name for each in vulnerabilities_of(version, has_device_quotas=False)] == names
    assert [each.name for each in vulnerabilities_of(version, has_device_quotas=True)] == with_quotas


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("1.15", "1.16", {"from Volcano 1.15.2", "from Volcano 1.16"}),
        ("1.15.1", "1.15.2", {"from Volcano 1.15.2"}),
        ("1.15.2", "1.16.0", {"from Volcano 1.16"}),
        ("1.16", "1.15.1", {"until Volcano 1.15.2", "until Volcano 1.16"}),
        ("1.15.0", "1.15.1", set()),
    ],
)
def test_changes_follow_the_patch_that_has_them_first(before: str, after: str, words: set[str]) -> None:
    actions = {"allocate", *(name for each in CHANGES for name in each.actions)}
    plugins = {name for each in CHANGES for name in each.plugins}
    text = f"actions: {sorted(actions)}\n  tiers: [{{plugins: [{', '.join(f'{{name: {name}}}' for name in plugins)}]}}]"
    kind = "apiVersion: gangplan.dev/v1alpha1\nkind: SchedulerConfiguration\n"
    text = f"{kind}metadata: {{name: volcano-scheduler-configmap}}\nspec:\n  {text}\n"
    specs = read_specs(Repository({"cluster-specs/a/a.yaml": text.encode()}))
    found = release_changes(VolcanoVersion.of_text(before), VolcanoVersion.of_text(after), specs)
    assert {each.partition(":")[0] for each in found} == words
