"""The faults have one control plane, and each test leaves it empty of all but its nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane import ControlPlane
from tests.e2e import fixtures
from tests.faults.bed import add_nodes, clear

FOLDER = Path(__file__).parent
installed, running_control_plane = fixtures.installed, fixtures.running_control_plane
"""pytest finds fixtures in a conftest by their names."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FOLDER in item.path.parents and item.get_closest_marker("e2e"):
            item.add_marker(pytest.mark.xdist_group("faults"))


@pytest.fixture(scope="package")
def installed_bed(installed: ControlPlane) -> Iterator[ControlPlane]:
    """The cluster with its nodes."""
    add_nodes(installed)
    yield installed
    clear(installed, nodes=True)


@pytest.fixture
def bed(installed_bed: ControlPlane) -> Iterator[ControlPlane]:
    """The same, emptied afterwards of all but the nodes."""
    yield installed_bed
    clear(installed_bed)
