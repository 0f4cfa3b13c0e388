from __future__ import annotations

import pytest

from tests.unit.reconciler.ownership.world import World


@pytest.fixture
def world() -> World:
    return World()
