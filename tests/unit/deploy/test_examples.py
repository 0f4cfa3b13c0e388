"""The examples for Argo CD and Flux: their health checks read the status as the reconciler writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import re2
import yaml

from compiler.version import VERSION
from deploy.docs import ROOT
from reconciler.changes.results import Condition
from reconciler.cluster.objects import FIELD_MANAGER
from reconciler.report.status import Report, status_document

EXAMPLES = ROOT / "deploy" / "examples"


def documents(name: str) -> Iterator[dict[str, Any]]:
    yield from yaml.safe_load_all((EXAMPLES / name).read_text())


def stored_status(*conditions: Condition, indent: int | None = 1) -> str:
    """As `StatusPublisher` stores it."""
    document = status_document(Report("abc", "abc", conditions), {}, "2026-01-01T00:00:00Z")
    return json.dumps(document, indent=indent, sort_keys=True)


HELD_MESSAGE = 'queue {a}: "status": "True", "type": "Applied"'
STATUSES = {
    "applied": (stored_status(Condition("Applied", True, "AsPlanned")), "Healthy"),
    "in one line": (stored_status(Condition("Applied", True, "AsPlanned"), indent=None), "Healthy"),
    "not applied": (stored_status(Condition("Applied", False, "Refused", HELD_MESSAGE)), "Progressing"),
    "broken": (
        stored_status(Condition("PassFailed", True, "Failed"), Condition("Applied", True, "AsPlanned")),
        "Degraded",
    ),
}


@pytest.mark.parametrize("status", STATUSES)
def test_argo_cd_reads_the_health_of_a_cluster(status: str) -> None:
    """The patterns of its Lua, which have of Lua's own only %s, in the order of the branches."""
    (settings,) = (each["data"] for each in documents("argo-cd.yaml") if each["metadata"]["name"] == "argocd-cm")
    lua = settings["resource.customizations.health.ConfigMap"]
    failed, applied = (found.replace("%s", r"\s") for found in re.findall(r"string\.find\(text, '(.*)'\)", lua))
    text, expected = STATUSES[status]
    found = "Degraded" if re.search(failed, text) else "Healthy" if re.search(applied, text) else "Progressing"
    assert found == expected
    assert FIELD_MANAGER in settings["resource.customizations.ignoreDifferences.ConfigMap"]


@pytest.mark.parametrize("status", STATUSES)
def test_flux_reads_the_health_of_a_cluster(status: str) -> None:
    """CEL's matches is RE2; its strings double a backslash."""
    (checks,) = (found for each in documents("flux.yaml") if (found := each["spec"].get("healthCheckExprs")))
    patterns = {
        name: re.findall(r"matches\('(.*)'\)", checks[0][name])[0].replace("\\\\", "\\")
        for name in ("failed", "current")
    }
    text, expected = STATUSES[status]
    failed, current = (re2.search(patterns[name], text) is not None for name in ("failed", "current"))
    assert ("Degraded" if failed else "Healthy" if current else "Progressing") == expected


def test_examples_name_this_version_and_what_is_there() -> None:
    applications = [each for each in documents("argo-cd.yaml") if each["kind"] == "Application"]
    sources = [each for each in documents("flux.yaml") if each["kind"] == "GitRepository"]
    kustomizations = [each for each in documents("flux.yaml") if each["kind"] == "Kustomization"]
    assert applications[0]["spec"]["source"]["targetRevision"] == sources[0]["spec"]["ref"]["tag"] == f"v{VERSION}"
    assert (ROOT / applications[0]["spec"]["source"]["path"] / "Chart.yaml").exists()
    assert (ROOT / kustomizations[0]["spec"]["path"] / "kustomization.yaml").exists()
    values = yaml.safe_load((ROOT / "deploy/chart/values.yaml").read_text())
    assert applications[0]["spec"]["source"]["helm"]["valuesObject"].keys() <= values.keys()
