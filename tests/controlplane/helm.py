"""Helm, built from its module like the operators: `helm()` is the program."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.controlplane.module_build import Source, build_from_module
from tests.controlplane.recipe import Module

_HELM: Final = Source(
    Module("helm.sh/helm/v3@v3.18.6", "h1:S/2CqcYnNfLckkHLI0VgQbxgcDaU3N4A/46E3n9wSNY="), "./cmd/helm", ()
)


def helm() -> Path:
    """The program, built first where the user's cache lacks it."""
    return build_from_module("helm", _HELM) / "program"
