"""What check says of pods in namespaces that enforce Pod Security, and what the real API server says."""

from __future__ import annotations

from tests.differential.admission.security import disagreements
from tests.differential.bed import Bed

SEED, NUMBER = 1, 100


def test_check_says_what_pod_security_says(bed: Bed) -> None:
    found, refused = disagreements(bed.plane, SEED, NUMBER)
    assert not found, "\n".join(found)
    assert NUMBER / 4 < refused < NUMBER * 3 / 4
