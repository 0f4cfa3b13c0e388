"""Examples that once broke a property, found by `scripts/hunt`: files of data, to be committed with the repair.

One may go when a clearer unit test says the same.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.hunting.plugin import FOUND_FOLDER
from tests.hunting.replay import replay


@pytest.mark.parametrize("file", sorted(FOUND_FOLDER.glob("*.yaml")), ids=lambda file: file.stem)
def test_a_property_holds_of_what_once_broke_it(file: Path) -> None:
    case = yaml.safe_load(file.read_text())
    replay(case["property"], case["arguments"])
