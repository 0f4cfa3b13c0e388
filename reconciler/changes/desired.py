"""The manifests of a plan as they are to be in the cluster, and what could be changed only by recreating it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from compiler import kubernetes as k8s
from compiler.emit.live_changes import NEVER_REPLACED
from compiler.emit.manifest import Manifest
from reconciler.changes.diff import Change, without_fields
from reconciler.cluster.client import ApiError, Client
from reconciler.cluster.objects import FIELD_MANAGER, Object, Ref, ref_of
from reconciler.threads.memo import drop_other_keys


def desired_manifest(client: Client, cluster: str, manifest: Manifest) -> Manifest:
    """Return the manifest with our labels and its run's digest, without what its owner leaves to others. Raises
    NotFound."""
    item: Object = json.loads(json.dumps(manifest.object))
    metadata = item["metadata"]
    labels = {k8s.MANAGED_BY_LABEL: FIELD_MANAGER, k8s.CLUSTER_LABEL: cluster}
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    if manifest.run_digest:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), k8s.DIGEST_ANNOTATION: manifest.run_digest}
    if not metadata.get("namespace") and client.resource(item["apiVersion"], item["kind"]).namespaced:
        metadata["namespace"] = "default"
    if yielded := k8s.annotations_of(item).get(k8s.YIELD_ANNOTATION):
        item = without_fields(item, [path.strip() for path in yielded.split(",") if path.strip()])
    return replace(manifest, object=item)


@dataclass(slots=True)
class DesiredManifests:
    """The manifests that the cluster should hold, built once for each manifest and run.

    made: by the manifest's id(). classified: Ref.key -> the manifest, the versions of everything else that counts, and
    the change found for them. kept: the manifests of the plan in force.
    """

    client: Client
    cluster: str
    made: dict[int, tuple[Manifest, Manifest, Ref]] = field(default_factory=dict)
    classified: dict[str, tuple[Manifest, tuple[object, ...], Change | None]] = field(default_factory=dict)
    kept: tuple[Manifest, ...] = ()

    def ref_of(self, manifest: Manifest) -> Ref:
        """Return the ref of what the manifest is to be, where that is made, else as it is written."""
        known = self.made.get(id(manifest))
        return known[2] if known is not None and known[0] is manifest else ref_of(manifest.object)

    def get(self, manifest: Manifest, run: str) -> tuple[Manifest, Ref]:
        """`desired_manifest` of this run, and its ref. Raises NotFound for a kind that is not served."""
        known = self.made.get(id(manifest))
        if known is None or known[0] is not manifest or known[1].run_digest != run:
            desired = desired_manifest(self.client, self.cluster, replace(manifest, run_digest=run))
            known = self.made[id(manifest)] = manifest, desired, ref_of(desired.object)
        return known[1], known[2]

    def keep_only(self, manifests: tuple[Manifest, ...]) -> None:
        """Forget the manifests of others, of candidates as well."""
        if self.kept is not manifests:
            ids = {id(manifest) for manifest in manifests}
            self.made = {at: known for at, known in self.made.items() if at in ids}
            self.kept = manifests

    def change(
        self, key: str, desired: Manifest, versions: tuple[object, ...], classify: Callable[[], Change | None]
    ) -> tuple[Change | None, bool]:
        """Return the change for this manifest object and these versions, and whether it was computed just now."""
        known = self.classified.get(key)
        if known is not None and known[0] is desired and known[1] == versions:
            return known[2], False
        change = classify()
        self.classified[key] = desired, versions, change
        return change, True

    def is_unchanged(self, key: str, desired: Manifest, version: tuple[str, str], finished: str | None) -> bool:
        """Return whether this manifest and live version needed no change, whatever its pods are."""
        known, versions, change = self.classified.get(key, (None, (), None))
        return known is desired and change is None and versions[:2] == (version, finished) and not versions[3]

    def forget_except(self, live: Collection[str]) -> None:
        drop_other_keys(self.classified, live)


WAY_OUT = f'deleted and recreated it would be taken: {k8s.REPLACE_ANNOTATION}: "true" on it allows that'


def under_other_name(item: Object) -> Object:
    name = k8s.name_of(item)
    return {**item, "metadata": {**item["metadata"], "name": name[:-1] + ("y" if name.endswith("x") else "x")}}


def is_accepted_if_recreated(client: Client, item: Object) -> bool:
    """Return whether the server would accept the object under another name, so that it refuses only the change.

    Asked by dry run. If the answer cannot be found out, nothing is deleted.
    """
    if ref_of(item).group_kind in NEVER_REPLACED:
        return False
    try:
        client.create_by_apply(under_other_name(item), dry_run=True)
    except ApiError:
        return False
    return True
