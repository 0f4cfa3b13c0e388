from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update",
        action="store_true",
        help="Rewrite what the golden cases expect (run as `pytest tests/golden --update`).",
    )
