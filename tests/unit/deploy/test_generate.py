"""The kustomize base and the chart install the same objects, and what is made is up to date."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler.rights import DEFAULT_KINDS
from compiler.version import VERSION
from deploy.generate import FOLDER, generated_files, values, values_schema
from deploy.release import KUBERNETES
from reconciler.cli.commands import reconcile
from reconciler.cli.config import read_config
from reconciler.cluster.rights import admission_objects, rbac_objects
from tests.controlplane.build import build
from tests.controlplane.helm import helm

ROOT = FOLDER.parent
CONFIG_NAME = "gangplan-config"
CHECKSUM = "checksum/config"
Object = dict[str, Any]


def pod_template(objects: list[Object]) -> Object:
    (template,) = (thing["spec"]["template"] for thing in objects if thing["kind"] == "Deployment")
    return dict(template)


def without_checksum(objects: list[Object]) -> list[Object]:
    """The chart's objects without what only a chart has."""
    pod_template(objects)["metadata"]["annotations"].pop(CHECKSUM)
    return objects


def by_name(objects: list[Object]) -> dict[tuple[str, str, str], Object]:
    found = {}
    for thing in objects:
        metadata = thing["metadata"]
        if "config.yaml" in thing.get("data", {}):
            thing["data"]["config.yaml"] = yaml.safe_load(thing["data"]["config.yaml"])
        found[thing["kind"], metadata.get("namespace", ""), metadata["name"]] = thing
    assert len(found) == len(objects), "no object twice"
    return found


def base_objects() -> list[Object]:
    """What kustomize makes of the base, but for the hash in the name of the configuration."""
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    (made,) = kustomization["configMapGenerator"]
    metadata = {"name": made["name"], "namespace": made["namespace"], "labels": made["options"]["labels"]}
    data = {name: (FOLDER / name).read_text() for name in made["files"]}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    texts = [(FOLDER / name).read_text() for name in kustomization["resources"]]
    return [config, *(thing for text in texts for thing in yaml.safe_load_all(text))]


def chart_objects(namespace: str = "gangplan-system", **changes: Any) -> list[Object]:
    """What Helm makes of the chart."""
    command = [str(helm()), "template", "gangplan", str(FOLDER / "chart"), "--values", "-"]
    command += ["--namespace", namespace, "--kube-version", KUBERNETES]
    made = subprocess.run(command, input=json.dumps(changes), check=True, capture_output=True, text=True).stdout
    return [thing for thing in yaml.safe_load_all(made) if thing]


@pytest.mark.parametrize("path", sorted(generated_files()), ids=str)
def test_what_is_made_is_up_to_date(path: Path) -> None:
    """Else run `python -m deploy.generate`."""
    assert (FOLDER / path).read_text() == generated_files()[path]


@pytest.mark.slow
def test_chart_and_base_install_the_same_objects() -> None:
    base = by_name(base_objects())
    del base["Namespace", "", "gangplan-system"]  # Helm makes it: --create-namespace
    assert by_name(without_checksum(chart_objects())) == base
    assert len(base) > 10


@pytest.mark.slow
def test_the_chart_in_another_namespace_has_rights_of_its_own() -> None:
    """With the same names it would replace the policies of the first install."""
    rights = by_name([*rbac_objects(DEFAULT_KINDS, "team"), *admission_objects("team")])
    made = by_name(chart_objects("team"))
    assert {name: made[name] for name in rights} == rights
    assert not made.keys() & by_name(base_objects()).keys()


def kustomized(folder: Path) -> tuple[list[Object], str]:
    """What kustomize makes of a base, with the plain name of the configuration; and its name with the hash."""
    kubectl = build() / "bin" / "kubectl"
    made = subprocess.run([kubectl, "kustomize", folder], check=True, capture_output=True, text=True).stdout
    (name,) = set(re.findall(rf"\b{CONFIG_NAME}-\w+", made))
    return list(yaml.safe_load_all(made.replace(name, CONFIG_NAME))), name


@pytest.mark.slow
def test_kustomize_takes_the_base() -> None:
    assert by_name(kustomized(FOLDER)[0]) == by_name(base_objects())


@pytest.mark.slow
def test_another_configuration_of_the_base_rolls_the_pods(tmp_path: Path) -> None:
    """Pods of a Deployment that is the same go on with what they read at their start."""
    changed = shutil.copytree(FOLDER, tmp_path / "deploy")
    with (changed / "config.yaml").open("a") as file:
        file.write("poll: 5\n")
    (before, name), (after, other_name) = kustomized(FOLDER), kustomized(changed)
    assert name != other_name
    assert pod_template(after) == pod_template(before), "the name of what they mount is all that differs"
    assert {"name": "config", "configMap": {"name": CONFIG_NAME}} in pod_template(after)["spec"]["volumes"]


@pytest.mark.slow
def test_another_configuration_of_the_chart_rolls_the_pods() -> None:
    def checksum(**changes: Any) -> str:
        return str(pod_template(chart_objects(**changes))["metadata"]["annotations"][CHECKSUM])

    usual = checksum()
    assert re.fullmatch(r"[0-9a-f]{64}", usual)
    assert checksum(config={**values()["config"], "poll": 5}) != usual
    assert checksum(replicas=3) == usual, "only the configuration counts"


@pytest.mark.slow
def test_values_reach_the_objects() -> None:
    changes: dict[str, Any] = {
        "image": "registry/gangplan@sha256:1",
        "replicas": 3,
        "config": {"repo": "r", "cluster": "c"},
        "rbac": {"create": False},
        "networkPolicy": {"create": False},
    }
    objects = by_name(chart_objects(**changes))
    deployment = objects["Deployment", "gangplan-system", "gangplan"]["spec"]
    assert deployment["replicas"] == 3
    assert deployment["template"]["spec"]["containers"][0]["image"] == "registry/gangplan@sha256:1"
    config = objects["ConfigMap", "gangplan-system", CONFIG_NAME]["data"]["config.yaml"]
    expected = {**values()["config"], "repo": "r", "cluster": "c", "namespace": "gangplan-system"}
    assert config == expected, "the namespace is the release's"
    assert not {"ClusterRole", "ServiceAccount", "NetworkPolicy"} & {kind for kind, _, _ in objects}


def test_the_pod_is_confined() -> None:
    pod = by_name(base_objects())["Deployment", "gangplan-system", "gangplan"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"memory", "ephemeral-storage"} <= container["resources"]["limits"].keys()
    assert all("sizeLimit" in volume["emptyDir"] for volume in pod["volumes"] if "emptyDir" in volume)
    assert container["image"] == f"gangplan:{VERSION}"


def test_the_schema_of_the_values_knows_the_options() -> None:
    schema = values_schema()
    assert set(values()) <= set(schema["properties"])
    assert set(values()["config"]) <= set(schema["properties"]["config"]["properties"])
    assert "namespace" not in schema["properties"]["config"]["properties"]
    json.dumps(schema)


def test_the_configuration_of_the_base_is_one(tmp_path: Path) -> None:
    """With the folder of the credentials as it is in the pod."""
    config = tmp_path / "config.yaml"
    config.write_text((FOLDER / "config.yaml").read_text().replace("/etc/gangplan/git", str(tmp_path)))
    options = read_config(config, reconcile)
    assert (options["cluster"], options["listen"]) == ("demo", ":8080")


def test_the_image_is_made_from_pinned_parts() -> None:
    """Seen once: an image of unpinned parts, a snapshot without a version."""
    text = (FOLDER / "Dockerfile").read_text()
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE}"}
    assert re.search(r"^ARG BASE$", text, re.MULTILINE), "required: it has no default"
    assert "PIP_CONSTRAINT=constraints.txt" in text
    copied = set(re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE))
    names = {name for line in copied for name in line.split()}
    assert {"constraints.txt", "pyproject.toml", "compiler", "reconciler", "solver"} <= names
    assert all((ROOT / name).exists() for name in names)
