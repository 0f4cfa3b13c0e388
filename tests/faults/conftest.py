"""The faults have one control plane, and one world as long as its tests pass."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane import ControlPlane
from tests.controlplane.failure_report import pytest_runtest_makereport  # noqa: F401  - a hook, found by its name
from tests.e2e import fixtures
from tests.faults.bed import add_nodes, clear
from tests.faults.shared import SharedWorld

FOLDER = "tests/faults/"
installed, running_control_plane = fixtures.installed, fixtures.running_control_plane
"""pytest finds fixtures in a conftest by their names."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(FOLDER) and item.get_closest_marker("e2e"):
            item.add_marker(pytest.mark.xdist_group("faults"))


@pytest.fixture(scope="package")
def shared_world(installed: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedWorld]:
    add_nodes(installed)
    shared = SharedWorld(installed, lambda: tmp_path_factory.mktemp("faults"))
    yield shared
    shared.end()
    clear(installed, nodes=True)
