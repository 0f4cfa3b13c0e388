"""What the control plane is built from: the versions, the packages and the flags. The digest of this file is part of
the cache's key."""

from __future__ import annotations

from typing import Final, NamedTuple

KUBERNETES: Final = "1.35.3"
GO_MINIMUM: Final = (1, 26)
GO_FROM_PYPI: Final = "1.26.6"


class Module(NamedTuple):
    """A module whose files the build reads, and the checksum that its zip must have."""

    name: str
    checksum: str


VOLCANO: Final = Module("volcano.sh/volcano@v1.15.1", "h1:M0iGzhy1dvod2GFy1QiyWdv1jmmNfHW4+2WoRU7CIAk=")
VOLCANO_APIS: Final = Module("volcano.sh/apis@v1.14.0", "h1:Rf8wzGFmgzbyg85GO0CxapDDEk/VM3D7QbjbI/sH+OQ=")
TRAINING_OPERATOR: Final = Module(
    "github.com/kubeflow/training-operator@v1.9.3", "h1:aaSHqskOtCY8Dn8sVd+l9p5XAczW6O0nYMPjVLAw/lc="
)
KWOK: Final = Module("sigs.k8s.io/kwok@v0.8.0", "h1:OTIOTwgROqPMovcTwxICx2eYQ4AwLpSx5EpjbDKF4SQ=")

# Volcano 1.15.1 uses one constant that the newest served volcano.sh/apis lacks.
APIS_PATCH_FILE: Final = "pkg/apis/scheduling/v1beta1/queue_allocation_gate.go"
APIS_PATCH: Final = 'package v1beta1\n\nconst QueueAllocationGateKey = GroupName + "/queue-allocation-gate"\n'

# Binary -> package of our Go module (go/go.mod pins it).
PROGRAMS: Final = {
    "certs": "gangplan.dev/controlplane/certs",
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "volcano-scheduler": "volcano.sh/volcano/cmd/scheduler",
    "volcano-controller-manager": "volcano.sh/volcano/cmd/controller-manager",
    "volcano-webhook-manager": "volcano.sh/volcano/cmd/webhook-manager",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}
# Binary -> package of a module of its own: kwok wants a newer Kubernetes than Volcano, so it cannot share our go.mod.
SEPARATE_PROGRAMS: Final = {"kwok": "sigs.k8s.io/kwok/cmd/kwok@v0.8.0"}

_VERSION: Final = "k8s.io/component-base/version"
_MAJOR, _MINOR, _ = KUBERNETES.split(".")
# Without the version stamp the API server says v0.0.0-master, and clients and Volcano's feature gates go by what it
# says.
LDFLAGS: Final = (
    f"-s -w -X {_VERSION}.gitVersion=v{KUBERNETES} -X {_VERSION}.gitMajor={_MAJOR} -X {_VERSION}.gitMinor={_MINOR}"
)

# Folder of the cache -> (module, file or glob inside it): what starting needs besides the binaries.
ASSETS: Final = (
    ("crds", VOLCANO, "config/crd/volcano/bases/*.yaml"),
    ("crds", VOLCANO, "config/crd/jobflow/bases/*.yaml"),
    ("crds", TRAINING_OPERATOR, "manifests/base/crds/kubeflow.org_pytorchjobs.yaml"),
    ("stages", KWOK, "kustomize/stage/node/fast/node-initialize.yaml"),
    ("stages", KWOK, "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml"),
    ("stages", KWOK, "kustomize/stage/pod/fast/pod-ready.yaml"),
    # Not pod-complete.yaml: it ends every pod whose owner's kind is Job at once, Volcano's Jobs included.
    ("stages", KWOK, "kustomize/stage/pod/fast/pod-delete.yaml"),
    ("volcano", VOLCANO, "installer/helm/chart/volcano/config/volcano-scheduler.conf"),
)
