"""The command line of each component. Ports and files are all of one control plane's own; nothing listens beyond the
loopback address."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tests.controlplane import quiet_user, webhooks
from tests.controlplane.processes import free_ports

# The controllers that jobs, nodes and quotas need; ServiceAccount tokens, for one, nobody here uses.
_CONTROLLERS = (
    "garbage-collector-controller", "namespace-controller", "job-controller", "deployment-controller",
    "replicaset-controller", "statefulset-controller", "pod-garbage-collector-controller", "node-lifecycle-controller",
    "taint-eviction-controller", "resourcequota-controller", "disruption-controller", "ttl-after-finished-controller",
    "cronjob-controller",
)  # fmt: skip
# kwok renews a node's lease four times in this time; the node controller gives up on a node after the grace period.
# Renewing every 6 s leaves room for a busy machine and costs 200 nodes 35 small writes a second.
_NODE_LEASE_SECONDS = 24
_NODE_GRACE = "16s"


class Ports(NamedTuple):
    """The loopback ports of one control plane."""

    etcd: int
    etcd_peer: int
    api: int
    controllers: int
    webhooks: int
    kwok: int
    scheduler: int
    unused: int  # Volcano's controllers name an address for metrics that they only open when asked to

    @classmethod
    def pick(cls) -> Ports:
        return cls(*free_ports(len(cls._fields)))


AUDIT_LOG = "logs/audit.log"
"""Below the work folder: what the user "gangplan" requested, one JSON object a line."""
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: [gangplan]}
- {level: None}
"""


def component_commands(cache: Path, work: Path, ports: Ports) -> dict[str, list[str]]:
    """Component -> command, in the order of starting."""
    binary = cache / "bin"
    keys = work / "keys"
    kubeconfig = work / "admin.kubeconfig"
    volcano = [f"--kubeconfig={work / quiet_user.USER}.kubeconfig", "--leader-elect=false", "-v=2"]
    return {
        "etcd": [
            str(binary / "etcd"),
            f"--data-dir={work / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{ports.etcd}",
            f"--advertise-client-urls=http://127.0.0.1:{ports.etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{ports.etcd_peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{ports.etcd_peer}",
            f"--initial-cluster=default=http://127.0.0.1:{ports.etcd_peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ],
        "kube-apiserver": [
            str(binary / "kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{ports.etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={ports.api}",
            f"--cert-dir={keys}",
            f"--tls-cert-file={keys / 'tls.crt'}",
            f"--tls-private-key-file={keys / 'tls.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={keys / 'sa.key'}",
            f"--service-account-signing-key-file={keys / 'sa.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            f"--token-auth-file={work / 'tokens.csv'}",
            "--disable-admission-plugins=ServiceAccount",
            "--profiling=false",
            f"--audit-policy-file={work / 'audit-policy.yaml'}",
            f"--audit-log-path={work / AUDIT_LOG}",
        ],
        "volcano-webhook-manager": [
            str(binary / "volcano-webhook-manager"),
            f"--kubeconfig={kubeconfig}",
            f"--webhook-url=https://127.0.0.1:{ports.webhooks}",
            "--listen-address=127.0.0.1",
            f"--port={ports.webhooks}",
            f"--tls-cert-file={keys / 'tls.crt'}",
            f"--tls-private-key-file={keys / 'tls.key'}",
            f"--ca-cert-file={keys / 'ca.crt'}",
            f"--enabled-admission={webhooks.ENABLED}",
            "-v=2",
        ],
        "kube-controller-manager": [
            str(binary / "kube-controller-manager"),
            f"--kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={ports.controllers}",
            f"--cert-dir={keys}",
            "--leader-elect=false",
            "--profiling=false",
            f"--controllers={','.join(_CONTROLLERS)}",
            f"--node-monitor-grace-period={_NODE_GRACE}",
            # The program's own 20 and 30 make it take the not-ready taints off 200 new nodes for most of a minute.
            "--kube-api-qps=300",
            "--kube-api-burst=600",
        ],
        "volcano-controller-manager": [
            str(binary / "volcano-controller-manager"),
            *volcano,
            f"--listen-address=127.0.0.1:{ports.unused}",
        ],
        "volcano-scheduler": [
            str(binary / "volcano-scheduler"),
            *volcano,
            f"--listen-address=127.0.0.1:{ports.scheduler}",
            "--enable-metrics=true",
            f"--scheduler-conf={work / 'scheduler-conf' / 'volcano-scheduler.conf'}",
            "--schedule-period=200ms",
            "--cache-dumper=false",
            # The Helm chart's values; the program's own are 50 and 100.
            "--kube-api-qps=2000",
            "--kube-api-burst=2000",
        ],
        "kwok": [
            str(binary / "kwok"),
            f"--kubeconfig={kubeconfig}",
            "--manage-all-nodes=true",
            f"--config={work / 'stages.yaml'}",
            f"--node-lease-duration-seconds={_NODE_LEASE_SECONDS}",
            f"--server-address=127.0.0.1:{ports.kwok}",
        ],
    }
