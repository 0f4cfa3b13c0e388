"""What the server returned of our writes counts until the watch has caught up, and not longer."""

from __future__ import annotations

import pytest

from reconciler.cluster.objects import Object, ref_of
from reconciler.observation.own_writes import OwnWrites

ITEM: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "a", "uid": "u"}}


@pytest.mark.parametrize(("reached", "is_there"), [(6, True), (8, False)])
def test_what_is_deleted_soon_after_our_write_is_seen_to_be_gone(reached: int, is_there: bool) -> None:
    """The scheduler's ConfigMap, edited by hand, put back and deleted, returned half a minute later."""
    own = OwnWrites()
    own.record_write({**ITEM, "metadata": {**ITEM["metadata"], "resourceVersion": "7"}})
    assert (ref_of(ITEM).key in own.laid_over("ConfigMap", {}, reached)) == is_there
