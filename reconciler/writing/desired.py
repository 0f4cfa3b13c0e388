"""The manifests of a plan as they are to be in the cluster."""

from __future__ import annotations

import json
from dataclasses import replace

from compiler.emit.manifest import Manifest
from compiler.kubernetes import CLUSTER_LABEL, DIGEST_ANNOTATION, MANAGED_BY_LABEL, YIELD_ANNOTATION, annotations_of
from reconciler.cluster.client import Client
from reconciler.cluster.objects import FIELD_MANAGER, Object
from reconciler.decisions.diff import without_fields


def desired_manifest(client: Client, cluster: str, manifest: Manifest) -> Manifest:
    """The manifest with our labels and the digest of its run, without the fields that its owner leaves to others.
    Raises NotFound for a kind that is not served."""
    item: Object = json.loads(json.dumps(manifest.object))
    metadata = item["metadata"]
    labels = {MANAGED_BY_LABEL: FIELD_MANAGER, CLUSTER_LABEL: cluster}
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    if manifest.run_digest:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), DIGEST_ANNOTATION: manifest.run_digest}
    if not metadata.get("namespace") and client.resource(item["apiVersion"], item["kind"]).namespaced:
        metadata["namespace"] = "default"
    if yielded := annotations_of(item).get(YIELD_ANNOTATION):
        item = without_fields(item, [path.strip() for path in yielded.split(",") if path.strip()])
    return replace(manifest, object=item)
