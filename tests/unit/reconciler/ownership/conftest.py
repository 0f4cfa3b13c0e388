from __future__ import annotations

import pytest

from tests.builders.ownership import World


@pytest.fixture
def world() -> World:
    return World()
