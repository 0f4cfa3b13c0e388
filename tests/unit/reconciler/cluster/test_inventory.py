"""The inventory as a ConfigMap: what cannot be read is no empty inventory."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.cluster.inventory import FinishedRun, Inventory, InventoryEntry, decode_inventory, encode_inventory
from reconciler.cluster.objects import Ref


def inventory_of(count: int) -> Inventory:
    refs = [Ref("v1", "ConfigMap", "default", f"object-{at}") for at in range(count)]
    return Inventory({ref.key: InventoryEntry(ref, uid=ref.name) for ref in refs})


def test_an_inventory_survives_its_text_whatever_its_size() -> None:
    job = Ref("batch.volcano.sh/v1alpha1", "Job", "default", "train")
    inventory = inventory_of(9000)
    inventory.entries[job.key] = InventoryEntry(job, "uid", started=True)
    inventory.runs[job.key] = FinishedRun(job, "sha256:1", "Completed")
    inventory.commit = "c0ffee"
    packed = encode_inventory(inventory.as_json())
    assert "binaryData" in packed
    assert Inventory.from_json(decode_inventory({"metadata": {}, **packed})) == inventory
    assert "data" in encode_inventory(inventory_of(1).as_json())


@pytest.mark.parametrize(
    "broken",
    [{}, {"data": {}}, {"data": {"inventory.json": '{"objects": ['}}, {"binaryData": {"inventory.json.gz": "AAAA"}}],
)
def test_an_inventory_that_cannot_be_read_is_an_error_and_not_empty(broken: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Inventory.from_json(decode_inventory({"metadata": {"name": "inventory"}, **broken}))
