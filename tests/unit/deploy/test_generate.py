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
from deploy.generate import FOLDER, SUBSTITUTIONS, generated_files, values, values_schema
from reconciler.cli.commands import reconcile
from reconciler.cli.config import read_config
from reconciler.cluster.rights import admission_objects, rbac_objects
from tests.builders.helm import render

ROOT = FOLDER.parent
CONTEXT: dict[str, Any] = {"Release": {"Namespace": "gangplan-system"}}
Object = dict[str, Any]


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
    names = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    return [thing for name in names for thing in yaml.safe_load_all((FOLDER / name).read_text())]


def chart_objects(**changes: Any) -> list[Object]:
    context = {**CONTEXT, "Values": {**values(), **changes}}
    texts = [render((FOLDER / "chart/templates" / name).read_text(), context) for name in SUBSTITUTIONS]
    return [thing for text in texts for thing in yaml.safe_load_all(text) if thing]


@pytest.mark.parametrize("path", sorted(generated_files()), ids=str)
def test_what_is_made_is_up_to_date(path: Path) -> None:
    """Else run `python -m deploy.generate`."""
    assert (FOLDER / path).read_text() == generated_files()[path]


def test_chart_and_base_install_the_same_objects() -> None:
    base = by_name(base_objects())
    del base["Namespace", "", "gangplan-system"]  # Helm makes it: --create-namespace
    assert by_name(chart_objects()) == base
    assert len(base) > 10


def test_the_chart_in_another_namespace_has_rights_of_its_own() -> None:
    """With the same names it would replace the policies of the first install."""
    there = {"Release": {"Namespace": "team"}, "Values": values()}
    texts = [render((FOLDER / "chart/templates" / name).read_text(), there) for name in ("rbac.yaml", "admission.yaml")]
    made = by_name([thing for text in texts for thing in yaml.safe_load_all(text) if thing])
    assert made == by_name([*rbac_objects(DEFAULT_KINDS, "team"), *admission_objects("team")])
    assert not made.keys() & by_name(base_objects()).keys()


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_kustomize_takes_the_base() -> None:
    made = subprocess.run(["kubectl", "kustomize", FOLDER], check=True, capture_output=True, text=True).stdout
    assert by_name(list(yaml.safe_load_all(made))) == by_name(base_objects())


@pytest.mark.skipif(shutil.which("helm") is None, reason="needs helm")
def test_helm_makes_of_the_chart_what_the_small_renderer_makes() -> None:
    command = ["helm", "template", "gangplan", str(FOLDER / "chart"), "--namespace", "gangplan-system"]
    made = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert by_name([thing for thing in yaml.safe_load_all(made) if thing]) == by_name(chart_objects())


def test_values_reach_the_objects() -> None:
    changes: dict[str, Any] = {
        "image": "registry/gangplan@sha256:1",
        "replicas": 3,
        "config": {"repo": "r", "cluster": "c", "namespace": "elsewhere"},
        "rbac": {"create": False},
        "networkPolicy": {"create": False},
    }
    objects = by_name(chart_objects(**changes))
    deployment = objects["Deployment", "gangplan-system", "gangplan"]["spec"]
    assert deployment["replicas"] == 3
    assert deployment["template"]["spec"]["containers"][0]["image"] == "registry/gangplan@sha256:1"
    config = objects["ConfigMap", "gangplan-system", "gangplan-config"]["data"]["config.yaml"]
    assert config == {"repo": "r", "cluster": "c", "namespace": "gangplan-system"}, "the namespace is the release's"
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
    file = tmp_path / "config.yaml"
    file.write_text(next(each["data"]["config.yaml"] for each in base_objects() if "data" in each))
    options = read_config(file, reconcile)
    assert (options["cluster"], options["listen"]) == ("demo", ":8080")


def test_the_image_is_made_from_pinned_parts() -> None:
    text = (FOLDER / "Dockerfile").read_text()
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE}"}
    assert re.search(r"^ARG BASE$", text, re.MULTILINE), "required: it has no default"
    assert "PIP_CONSTRAINT=constraints.txt" in text
    copied = set(re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE))
    names = {name for line in copied for name in line.split()}
    assert {"constraints.txt", "pyproject.toml", "compiler", "reconciler", "solver"} <= names
    assert all((ROOT / name).exists() for name in names)


def test_the_small_renderer_refuses_what_it_does_not_know() -> None:
    for template in ('a: {{ include "x" . }}\n', "a: {{ .Values.config }}\n", "{{- if .Values.image }}\n"):
        with pytest.raises(ValueError):
            render(template, {**CONTEXT, "Values": values()})
