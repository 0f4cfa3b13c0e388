"""python -m tests.controlplane.vendor_schemas KUBECONFIG SOURCE=FOLDER...: writes compiler/openapi/data anew.

Kubernetes' schemas come from /openapi/v3 of the running test bed, those of CRDs from the *.yaml files of the folders, a
file for each source. volcano-1.16=FOLDER takes Volcano's CRDs of 1.15.1 and adds what volcano-1.16.yaml says; check
GP436 keeps each release to what it has. Equal parts are kept once, descriptions and status are left out. The names
of time zones come from Go's zoneinfo.zip (time-zones=FOLDER): Kubernetes brings them along.
"""

from __future__ import annotations

import gzip
import json
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.controlplane.rest import from_kubeconfig

DATA: Final = Path(__file__).parents[2] / "compiler" / "openapi" / "data"
KUBERNETES: Final = "kubernetes-1.35"
VOLCANO: Final = "volcano-1.16"
ADDITIONS: Final = Path(__file__).with_name("volcano-1.16.yaml")
_CORE_KINDS: Final = {
    "api/v1": """ConfigMap LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod PodTemplate
        ReplicationController ResourceQuota Secret Service ServiceAccount""",
    "apis/apps/v1": "DaemonSet Deployment ReplicaSet StatefulSet",
    "apis/batch/v1": "CronJob Job",
    "apis/networking.k8s.io/v1": "NetworkPolicy",
    "apis/policy/v1": "PodDisruptionBudget",
    "apis/resource.k8s.io/v1": "DeviceClass ResourceClaim ResourceClaimTemplate",
    "apis/rbac.authorization.k8s.io/v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
    "apis/scheduling.k8s.io/v1": "PriorityClass",
}
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_KEPT: Final = (
    *("enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "format"),
    *("required", "nullable"),
)
_SCALAR_FORMATS: Final = {"int-or-string": "int-or-string", "date-time": "time"}
_ANY: Final[dict[str, Any]] = {"type": "any"}


class Pool:
    """Schemas as a list of nodes that name each other by index, equal ones once."""

    def __init__(self, definitions: Mapping[str, Any], *, requires: bool = True) -> None:
        """requires: missing fields are refused; Argo, which decodes its objects itself, wants those of mounts only."""
        self._requires = requires
        self.nodes: list[dict[str, Any]] = []
        self._definitions = definitions
        self._indices: dict[str, int] = {}
        self._of_definition: dict[str, int] = {}

    def add(self, schema: Mapping[str, Any]) -> int:
        """The index of the schema's node."""
        if "allOf" in schema and "$ref" in schema["allOf"][0]:
            schema = schema["allOf"][0]
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name not in self._of_definition:
                self._of_definition[name] = self._intern(self._definition_node(name))
            return self._of_definition[name]
        return self._intern(self._node(schema))

    def add_object(self, schema: Mapping[str, Any]) -> int:
        """The index of the node of a whole object: what a cluster writes (status) is not looked at."""
        parts = {name: part for name, part in schema["properties"].items() if name not in ("status", "metadata")}
        node: dict[str, Any] = {"type": "object", "properties": {name: self.add(part) for name, part in parts.items()}}
        node["properties"]["metadata"] = self.add({"$ref": _META})
        if "status" in schema["properties"]:
            node["properties"]["status"] = self._intern(_ANY)
        if required := sorted(schema.get("required", ())):
            node["required"] = required
        return self._intern(node)

    def _definition_node(self, name: str) -> dict[str, Any]:
        if name.endswith(".resource.Quantity"):
            return {"type": "quantity"}
        if name.endswith((".intstr.IntOrString",)):
            return {"type": "int-or-string"}
        return self._node(self._definitions[name])

    def _intern(self, node: dict[str, Any]) -> int:
        key = json.dumps(node, sort_keys=True)
        if key not in self._indices:
            self._indices[key] = len(self.nodes)
            self.nodes.append(node)
        return self._indices[key]

    def _node(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        if schema.get("x-kubernetes-int-or-string"):
            return {"type": "quantity"} if "pattern" in schema else {"type": "int-or-string"}
        kind = _SCALAR_FORMATS.get(schema.get("format", ""), schema.get("type"))
        if kind is None:
            return _ANY
        node: dict[str, Any] = {"type": kind, **{key: schema[key] for key in _KEPT if key in schema}}
        if kind == "time":
            del node["format"]
        if not self._requires and "mountPath" not in node.get("required", ()):
            node.pop("required", None)
        if schema.get("default") not in (None, "", {}):
            node["default"] = schema["default"]
        if "properties" in schema:
            node["properties"] = {name: self.add(part) for name, part in schema["properties"].items()}
            is_whole = "containers" in node.get("required", ())  # not a part that overrides another's
            if is_whole and {"nodeSelector", "tolerations"} <= node["properties"].keys():
                node["is"] = "pod"
        if isinstance(extra := schema.get("additionalProperties"), Mapping):
            node["values"] = self.add(extra)
        if "items" in schema:
            node["items"] = self.add(schema["items"])
        return node | _kubernetes_keys(schema)


def _kubernetes_keys(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What Kubernetes' own keywords say of a schema."""
    found: dict[str, Any] = {}
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        found["open"] = True
    if keys := schema.get("x-kubernetes-list-map-keys"):
        found["keys"] = keys
    elif schema.get("x-kubernetes-list-type") == "set":
        found["keys"] = []
    return found


def _core_kinds(documents: Mapping[str, Any], pool: Pool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, names in _CORE_KINDS.items():
        group, _, version = path.removeprefix("apis/").removeprefix("api/").rpartition("/")
        for schema in documents[path]["components"]["schemas"].values():
            gvks = schema.get("x-kubernetes-group-version-kind", ())
            for gvk in gvks if len(gvks) == 1 else ():
                if (gvk["group"], gvk["version"]) == (group, version) and gvk["kind"] in names.split():
                    found[f"{gvk['kind']}.{group}"] = {version: pool.add_object(schema)}
    return found


def _custom_kinds(crds: Iterable[Mapping[str, Any]], pool: Pool) -> Iterator[tuple[str, dict[str, int]]]:
    for crd in crds:
        versions = [version for version in crd["spec"]["versions"] if version["served"]]
        roots = {version["name"]: pool.add_object(version["schema"]["openAPIV3Schema"]) for version in versions}
        yield _kind_key(crd), roots


def _crds(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.glob("**/*.yaml"), key=lambda file: (file.name, file)):
        for crd in yaml.load_all(file.read_text(), yaml.CSafeLoader):
            if isinstance(crd, dict) and crd.get("kind") == "CustomResourceDefinition":
                yield crd


def with_additions(crds: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Volcano's CRDs with what volcano-1.16.yaml adds to them, and those that are new in it."""
    added: dict[str, dict[str, Any]] = yaml.load(ADDITIONS.read_text(), yaml.CSafeLoader)
    for crd in crds:
        for path, schema in added.pop(_kind_key(crd), {}).items():
            *around, name = path.split(".")
            node = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            for step in around:
                node = node["properties"][step]
            node["properties"][name] = schema
        _add_scheduling_groups(crd)
        yield crd
    for key, schema in added.items():
        kind, _, group = key.partition(".")
        version = {"name": "v1beta1", "served": True, "schema": {"openAPIV3Schema": schema}}
        yield {"spec": {"group": group, "names": {"kind": kind}, "versions": [version]}}


def _add_scheduling_groups(schema: Any) -> None:
    """Pod templates have schedulingGroup in place of workloadRef, which those of 1.15 have."""
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _add_scheduling_groups(part)
    if isinstance(schema, dict) and "workloadRef" in schema:
        schema["schedulingGroup"] = {"type": "object", "properties": {"podGroupName": {"type": "string"}}}


def _kind_key(crd: Mapping[str, Any]) -> str:
    return f"{crd['spec']['names']['kind']}.{crd['spec']['group']}"


def _write(folder: Path, name: str, pool: Pool, kinds: Mapping[str, Any], *, structural: bool) -> None:
    data = {"structural": structural, "kinds": dict(sorted(kinds.items())), "nodes": pool.nodes}
    text = json.dumps(data, separators=(",", ":"), sort_keys=True).encode()
    (folder / f"{name}.json.gz").write_bytes(gzip.compress(text, mtime=0))
    print(f"{name}: {len(kinds)} kinds, {len(pool.nodes)} nodes, {len(text)} bytes")


def _write_time_zones(folder: Path, go_folder: Path) -> None:
    with zipfile.ZipFile(go_folder / "zoneinfo.zip") as archive:
        names = sorted(name for name in archive.namelist() if not name.endswith("/"))
    (folder / "time-zones.json").write_text(json.dumps(names, indent=0) + "\n")


def write_schemas(kubeconfig: Path, sources: Iterable[str], folder: Path = DATA) -> None:
    """Write the files. sources: NAME=FOLDER of each other than Kubernetes."""
    client = from_kubeconfig(kubeconfig)

    def get(path: str) -> Any:
        said = client("GET", path)
        return json.loads(said) if isinstance(said, str) else said

    paths = get("/openapi/v3")["paths"]
    documents = {path: get(paths[path]["serverRelativeURL"]) for path in _CORE_KINDS}
    definitions = {
        name: schema for found in documents.values() for name, schema in found["components"]["schemas"].items()
    }
    pool = Pool(definitions)
    _write(folder, KUBERNETES, pool, _core_kinds(documents, pool), structural=False)
    index = dict.fromkeys(_core_kinds(documents, pool), KUBERNETES)
    for source in sources:
        name, _, place = source.partition("=")
        if name == "time-zones":
            _write_time_zones(folder, Path(place))
            continue
        is_of_argo = name.startswith("argo-workflows")  # Argo decodes them itself
        pool = Pool(definitions, requires=not is_of_argo)
        crds = _crds(Path(place))
        kinds = dict(_custom_kinds(with_additions(crds) if name == VOLCANO else crds, pool))
        _write(folder, name, pool, kinds, structural=not is_of_argo)
        for kind, versions in kinds.items():
            taken = kind in index  # by another operator, with other versions
            index |= dict.fromkeys([f"{kind}/{version}" for version in versions] if taken else [kind], name)
    (folder / "index.json").write_text(json.dumps(index, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]), sys.argv[2:])
