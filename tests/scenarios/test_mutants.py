"""Thousands of broken documents: no exception, whatever is in one and next to it, and every finding complete."""

from __future__ import annotations

from itertools import islice

import pytest

from compiler.diagnostics.render import render_text
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from tests.builders.depth import sample
from tests.builders.mutants import mutants

SHARES, BATCHES, BATCH = 4, 13, 200
"""Many documents make one repository, since checks across objects cost the more the more repositories there are."""
POOL = b"apiVersion: gangplan.dev/v1alpha1\nkind: NodePool\nmetadata: {name: p}\nspec: {count: 4, capacity: {cpu: 8}}\n"


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_broken_documents_are_told(share: int) -> None:
    drawn, told = mutants(share, sample(BATCHES) * BATCH), 0
    for _ in range(sample(BATCHES)):
        files = {"cluster-specs/c/pool.yaml": POOL}
        for number, text in enumerate(islice(drawn, BATCH)):
            files[f"cluster-specs/c/{number}.yaml" if number % 3 else f"jobs/{number}.yaml"] = text
        found = read_specs(Repository(files), "c").diagnostics
        assert all(each.message and each.help for each in found)
        assert all(each.position.line >= 1 and each.position.column >= 1 for each in found)
        assert render_text(found)
        told += len({each.position.file for each in found})
    assert told > sample(BATCHES) * BATCH / 2
