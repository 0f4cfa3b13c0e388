"""Writes what of deploy/ is made from something else: `python -m deploy.generate`.

rbac.yaml and admission.yaml come from `reconciler.cluster.rights`, the chart from the files of the kustomize base: a
template is a base file with some of its values replaced, and values.yaml holds these values. So both install the same
objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from compiler.rights import DEFAULT_KINDS
from compiler.version import VERSION
from reconciler.cli.commands import reconcile
from reconciler.cli.config import config_schema
from reconciler.cluster.rights import NAME, NAMESPACE, admission_objects, install_name, rbac_objects

FOLDER = Path(__file__).parent
CHART = Path("chart")

RBAC_HEADER = """\
# What the reconciler may do, and nothing else. It reads no Secret, creates and deletes no pod, and touches no status.
# Made by `python -m deploy.generate`; `gangplan rbac` makes it for the kinds and namespaces that a repository holds.
"""
ADMISSION_HEADER = """\
# What RBAC cannot say: which fields of a pod and which ConfigMaps the reconciler may write. Kubernetes 1.30 or newer.
# Made by `python -m deploy.generate`.
"""
CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: gangplan-config
  namespace: {{ .Release.Namespace }}
  labels: {app.kubernetes.io/name: gangplan}
data:
  config.yaml: |
    namespace: {{ .Release.Namespace }}
    {{- toYaml (omit .Values.config "namespace") | nindent 4 }}
"""
"""The ConfigMap that kustomize generates from the base's config.yaml, with a name of its own for each text."""
CHECKSUM = """\
        # Another configuration rolls the pods.
        checksum/config: {{ include (print $.Template.BasePath "/config.yaml") . | sha256sum }}
"""
RELEASE = "{{ .Release.Namespace }}"
RELEASE_STAND_IN = "release-namespace"
"""A namespace that represents the release's while the chart's RBAC permissions are generated."""
INSTALL_NAME = (
    f'{{{{ ternary "{NAME}" (printf "{NAME}-%s" .Release.Namespace) (eq .Release.Namespace "{NAMESPACE}") }}}}'
)
"""`install_name` of the release's namespace."""
RESOURCES = "{{- toYaml .Values.resources | nindent 12 }}"

_RESOURCES_TEXT = """\
          resources:
            requests: {cpu: 500m, memory: 512Mi, ephemeral-storage: 1Gi}
            limits: {memory: 4Gi, ephemeral-storage: 3Gi}
"""
_LAST_ANNOTATION = """\
        prometheus.io/port: "8080"
"""
SUBSTITUTIONS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "deployment.yaml": (
        (_LAST_ANNOTATION, _LAST_ANNOTATION + CHECKSUM),
        ("replicas: 2", "replicas: {{ .Values.replicas }}"),
        (f"image: gangplan:{VERSION}", "image: {{ .Values.image }}"),
        (_RESOURCES_TEXT, f"          resources:\n            {RESOURCES}\n"),
        ("sizeLimit: 2Gi", "sizeLimit: {{ .Values.dataSize }}"),
        ("secretName: gangplan-git", "secretName: {{ .Values.gitSecret }}"),
    ),
    "networkpolicy.yaml": (),
    "rbac.yaml": (),
    "admission.yaml": (),
}
"""File of the base -> text in it, and its replacement in the chart. Each text occurs exactly once."""
OPTIONAL = {"rbac.yaml": "rbac.create", "networkpolicy.yaml": "networkPolicy.create"}
"""File -> the value that decides whether the chart has it."""


def values() -> dict[str, Any]:
    """Return the chart's defaults: those of the base. The namespace is the release's."""
    config = yaml.safe_load((FOLDER / "config.yaml").read_text())
    return {
        "image": f"gangplan:{VERSION}",
        "replicas": 2,
        "config": {key: value for key, value in config.items() if key != "namespace"},
        "gitSecret": "gangplan-git",
        "dataSize": "2Gi",
        "resources": yaml.safe_load(_RESOURCES_TEXT)["resources"],
        "rbac": {"create": True},
        "networkPolicy": {"create": True},
    }


def values_schema() -> dict[str, Any]:
    """Return a JSON schema of values.yaml. The namespace is the release's."""
    config = config_schema(reconcile)
    del config["properties"]["namespace"]
    switch = {"type": "object", "properties": {"create": {"type": "boolean"}}, "additionalProperties": False}
    return {
        "$schema": "https://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "image": {"type": "string", "minLength": 1, "description": "Best by digest: name@sha256:..."},
            "replicas": {"type": "integer", "minimum": 1},
            "config": {**config, "required": ["repo", "cluster"]},
            "gitSecret": {"type": "string", "minLength": 1, "description": "May be absent for a public repository."},
            "dataSize": {"type": "string"},
            "resources": {"type": "object"},
            "rbac": {**switch, "description": "create: false where the output of `gangplan rbac` is applied instead."},
            "networkPolicy": switch,
            "global": {"type": "object"},
        },
        "required": ["image", "config"],
        "additionalProperties": False,
    }


def chart_template(name: str, base: str) -> str:
    """Return the chart's template of a file of the base. Raises ValueError where a text to replace is not there
    once."""
    text = base
    for old, new in SUBSTITUTIONS[name]:
        if text.count(old) != 1:
            raise ValueError(f"{name}: {old!r} occurs {text.count(old)} times")
        text = text.replace(old, new)
    text = text.replace(install_name(RELEASE_STAND_IN), INSTALL_NAME).replace(RELEASE_STAND_IN, RELEASE)
    text = text if name in _RIGHTS else text.replace(NAMESPACE, RELEASE)
    if value := OPTIONAL.get(name):
        text = f"{{{{- if .Values.{value} }}}}\n{text}{{{{- end }}}}\n"
    return text


def yaml_text(documents: list[dict[str, Any]]) -> str:
    """Return the documents as YAML, short lists and maps on one line."""
    text: str = yaml.safe_dump_all(documents, default_flow_style=None, sort_keys=False, width=1000)
    return text


_RIGHTS: dict[str, Callable[[str], str]] = {
    "rbac.yaml": lambda namespace: RBAC_HEADER + yaml_text(rbac_objects(DEFAULT_KINDS, namespace)),
    "admission.yaml": lambda namespace: ADMISSION_HEADER + yaml_text(admission_objects(namespace)),
}
"""File -> its text for the gangplan in a namespace."""


def generated_files() -> dict[Path, str]:
    """Path below deploy/ -> text of everything that is made."""
    files = {Path(name): text_for(NAMESPACE) for name, text_for in _RIGHTS.items()}
    files[CHART / "templates" / "config.yaml"] = CONFIG_MAP
    for name in SUBSTITUTIONS:
        base = _RIGHTS[name](RELEASE_STAND_IN) if name in _RIGHTS else (FOLDER / name).read_text()
        files[CHART / "templates" / name] = chart_template(name, base)
    chart = {
        "apiVersion": "v2",
        "name": "gangplan",
        "description": "Keeps a Kubernetes and Volcano cluster at the plan of a git repository.",
        "type": "application",
        "version": VERSION,
        "appVersion": VERSION,
        "kubeVersion": ">=1.30.0-0",
    }
    files[CHART / "Chart.yaml"] = yaml_text([chart])
    files[CHART / "values.yaml"] = yaml_text([values()])
    files[CHART / "values.schema.json"] = json.dumps(values_schema(), indent=2) + "\n"
    return files


def main() -> None:
    for path, text in generated_files().items():
        (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / path).write_text(text)


if __name__ == "__main__":
    main()
