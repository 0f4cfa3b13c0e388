"""A cluster with gangplan's rights installed and the scheduler's ConfigMap followed, cleaned after each story."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane import ControlPlane
from tests.e2e.stories.story import clean_cluster, install_rights


@pytest.fixture(scope="session")
def installed(running_control_plane: ControlPlane) -> ControlPlane:
    install_rights(running_control_plane)
    running_control_plane.follow_scheduler_configmap("volcano-system", "volcano-scheduler-configmap")
    return running_control_plane


@pytest.fixture
def plane(installed: ControlPlane) -> Iterator[ControlPlane]:
    yield installed
    clean_cluster(installed)
