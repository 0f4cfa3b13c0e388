"""Objects that the API server does not let be changed, and would take anew."""

from __future__ import annotations

from compiler.emit.live_changes import NEVER_REPLACED
from compiler.kubernetes import REPLACE_ANNOTATION, name_of
from reconciler.cluster.client import ApiError, Client
from reconciler.cluster.objects import Object, ref_of

WAY_OUT = f'deleted and made anew it would be taken: {REPLACE_ANNOTATION}: "true" on it allows that'


def under_other_name(item: Object) -> Object:
    name = name_of(item)
    return {**item, "metadata": {**item["metadata"], "name": name[:-1] + ("y" if name.endswith("x") else "x")}}


def is_taken_anew(client: Client, item: Object) -> bool:
    """Whether the server would take the object under another name, so that what it refuses is the change. Asked by dry
    run; what cannot be found out is no reason to delete anything."""
    if ref_of(item).group_kind in NEVER_REPLACED:
        return False
    try:
        client.create_by_apply(under_other_name(item), dry_run=True)
    except ApiError:
        return False
    return True
