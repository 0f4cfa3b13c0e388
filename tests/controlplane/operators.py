"""The operators whose jobs gangplan plans, each built from its module and run next to a control plane on demand.

They run as in their own releases: Volcano named as the gang scheduler where they know it, their admission webhooks
called by URL with the control plane's certificates. Nothing of them is built or started unless a test asks for it.
"""

from __future__ import annotations

import base64
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.controlplane.module_build import Replacement, Source, build_from_module
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import free_ports
from tests.controlplane.recipe import TRAINING_OPERATOR, Module


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: what it is built from, and how it is started.

    arguments: of its command line, with {port} of its webhooks, {health} and {metrics} ports and {work}, its folder.
    configuration: of a file {work}/configuration.yaml, likewise. pods: the label of the pods that its webhooks look at.
    """

    name: str
    source: Source
    arguments: tuple[str, ...]
    configuration: str = ""
    pods: str = ""


_CONFIGURATION: Final = """\
apiVersion: config.%s.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {{leaderElect: false}}
internalCertManagement: {{enable: false}}
webhook: {{host: 127.0.0.1, port: {port}, certDir: "{work}"}}
health: {{healthProbeBindAddress: "127.0.0.1:{health}"}}
metrics: {{bindAddress: "127.0.0.1:{metrics}"}}
"""

_JOBSET: Final = Module("sigs.k8s.io/jobset@v0.10.1", "h1:u8QKifNsrWVrlRFe6w2ofYTqFT9ma2DRHxfeB2m9xyU=")
_KUBERAY: Final = Module(
    "github.com/ray-project/kuberay/ray-operator@v1.4.2", "h1:A4tGzbIky8sInAUxZBdBb+rrpZ7fbqoxdsOtm559Zqg="
)
_LWS: Final = Module("sigs.k8s.io/lws@v0.7.0", "h1:qWfzX8+UBak+Hq0+m/PuE3uO0mp/3dmm5q/h/7z31A8=")
_MPI_OPERATOR: Final = Module(
    "github.com/kubeflow/mpi-operator@v0.6.0", "h1:RzzG03oyQIiHe/SH2k19N+Hp4QkxEsG2l9G1T7US+ys="
)
_TRAINER: Final = Module("github.com/kubeflow/trainer/v2@v2.1.0", "h1:jRABD9ZYToamNH2atHze3L/VC/v6KCAqUEqsOQOjVTg=")
_MPI_SERVER: Final = "cmd/mpi-operator/app/server.go"
_TRAINING_MAIN: Final = "cmd/training-operator.v1/main.go"

_TRAINER_CONFIGURATION: Final = """\
apiVersion: config.trainer.kubeflow.org/v1alpha1
kind: Configuration
leaderElection: {{leaderElect: false}}
certManagement: {{enable: false}}
webhook: {{host: 127.0.0.1, port: {port}}}
health: {{healthProbeBindAddress: "127.0.0.1:{health}"}}
metrics: {{bindAddress: "127.0.0.1:{metrics}", secureServing: false}}
"""

OPERATORS: Final = (
    Operator(
        "jobset",
        Source(
            _JOBSET,
            ".",
            (("crds", "config/components/crd/bases/*.yaml"), ("webhooks", "config/components/webhook/manifests.yaml")),
        ),
        ("--config={work}/configuration.yaml",),
        _CONFIGURATION % "jobset",
        pods="jobset.sigs.k8s.io/jobset-name",
    ),
    Operator(
        "training-operator",
        Source(
            TRAINING_OPERATOR,
            "./cmd/training-operator.v1",
            (
                ("crds", "manifests/base/crds/kubeflow.org_[jtx]*.yaml"),
                ("crds", "manifests/base/crds/kubeflow.org_paddlejobs.yaml"),  # that of PyTorchJob is there
                ("webhooks", "manifests/base/webhook/manifests.yaml"),
            ),
            # It makes its certificates in a Secret that a kubelet mounts at a fixed path; here it takes ours.
            (
                Replacement(_TRAINING_MAIN, "defer close(certsReady)", "close(certsReady)"),
                Replacement(
                    _TRAINING_MAIN,
                    "err = cert.ManageCerts(mgr, certGenerationConfig, certsReady); err != nil",
                    'certGenerationConfig.WebhookSecretName == ""',
                ),
            ),
        ),
        (
            "-gang-scheduler-name=volcano",
            *(f"-enable-scheme={kind}job" for kind in ("jax", "paddle", "pytorch", "tf", "xgboost")),
            *("-webhook-server-port={port}", "-health-probe-bind-address=127.0.0.1:{health}"),
            "-metrics-bind-address=127.0.0.1:{metrics}",
        ),
    ),
    Operator(
        "kuberay",  # its webhooks are off, as in its Helm chart
        Source(_KUBERAY, ".", (("crds", "config/crd/bases/*.yaml"),), beside=_JOBSET),
        (
            *("-batch-scheduler=volcano", "-enable-leader-election=false", "-metrics-addr=127.0.0.1:{metrics}"),
            "-health-probe-bind-address=127.0.0.1:{health}",
        ),
    ),
    Operator(
        "lws",
        Source(
            _LWS,
            "./cmd",
            (("crds", "config/crd/bases/*.yaml"), ("webhooks", "config/webhook/manifests.yaml")),
            beside=_JOBSET,
        ),
        ("--config={work}/configuration.yaml", "--leader-elect=false"),
        _CONFIGURATION % "lws",
        pods="leaderworkerset.sigs.k8s.io/name",
    ),
    Operator(
        "trainer",
        Source(
            _TRAINER,
            "./cmd/trainer-controller-manager",
            (("crds", "manifests/base/crds/trainer*.yaml"), ("webhooks", "manifests/base/webhook/manifests.yaml")),
            beside=_JOBSET,
        ),
        ("--config={work}/configuration.yaml",),
        _TRAINER_CONFIGURATION,
    ),
    Operator(
        "mpi-operator",  # it has no webhooks
        Source(
            _MPI_OPERATOR,
            "./cmd/mpi-operator",
            (("crds", "manifests/base/kubeflow.org_mpijobs.yaml"),),
            (
                # Its health check listens on port 8080 of every address, whatever the command line says.
                Replacement(_MPI_SERVER, 'fmt.Sprintf(":%d", healthCheckPort)', '"127.0.0.1:0"'),
                # It ends when it cannot renew its lease in 5 s, which on a busy machine is no defect.
                Replacement(_MPI_SERVER, "leaseDuration = 15 * time.Second", "leaseDuration = 600 * time.Second"),
                Replacement(_MPI_SERVER, "renewDuration = 5 * time.Second", "renewDuration = 300 * time.Second"),
                # As client-go names it since 0.33.
                Replacement(
                    "pkg/controller/mpi_job_controller.go",
                    "cache.DefaultWatchErrorHandler(r, err)",
                    "cache.DefaultWatchErrorHandler(context.TODO(), r, err)",
                ),
            ),
            beside=_JOBSET,
        ),
        ("-gang-scheduling=volcano", "-lock-namespace=default", "-kube-api-qps=100", "-kube-api-burst=200"),
    ),
)


def build_operators() -> None:
    """Build those that are missing."""
    for operator in OPERATORS:
        build_from_module(operator.name, operator.source)


class Operators:
    """Operators that run next to a control plane. They, their types and webhooks end with it: to remove the types takes
    longer than to start another control plane."""

    def __init__(self, plane: ControlPlane, operators: Iterable[Operator] = OPERATORS) -> None:
        self._plane = plane
        self._operators = tuple(operators)

    def start(self) -> None:
        """Start all, and return when they answer."""
        build_operators()
        for operator in self._operators:
            for file in _files(operator, "crds"):
                self._plane.create_type(file)
        self._plane.wait_until_types_are_served()
        ports = {operator.name: self._start(operator) for operator in self._operators}
        for operator in self._operators:
            self._install_webhooks(operator, ports[operator.name])

    def _start(self, operator: Operator) -> int:
        """Start it; the port of its webhooks."""
        folder = self._plane.work_folder / operator.name
        serving = folder / "k8s-webhook-server" / "serving-certs"  # where controller-runtime looks, below TMPDIR
        serving.mkdir(parents=True)
        for name in ("tls.crt", "tls.key"):
            for place in (folder, serving):
                (place / name).write_bytes((self._plane.work_folder / "keys" / name).read_bytes())
        port, health, metrics = free_ports(3)
        values = {"port": port, "health": health, "metrics": metrics, "work": folder}
        (folder / "configuration.yaml").write_text(operator.configuration.format(**values))
        self._plane.add_component(
            operator.name,
            [
                str(build_from_module(operator.name, operator.source) / "program"),
                *(argument.format(**values) for argument in operator.arguments),
            ],
            {"KUBECONFIG": str(self._plane.kubeconfig), "TMPDIR": str(folder)},
        )
        return port

    def _install_webhooks(self, operator: Operator, port: int) -> None:
        bundle = base64.b64encode((self._plane.work_folder / "keys" / "ca.crt").read_bytes()).decode()
        for file in _files(operator, "webhooks"):
            for configuration in yaml.safe_load_all(file.read_text()):
                found = [_by_url(each, operator, port, bundle) for each in configuration["webhooks"]]
                for each in found:
                    url = each["clientConfig"]["url"]
                    self._plane.wait_until(lambda url=url: _is_served(url), what=url)  # type: ignore[misc]
                name = f"{operator.name}-{configuration['metadata']['name']}"
                kind = configuration["kind"]
                path = f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s"
                self._plane.api("POST", path, {**configuration, "metadata": {"name": name}, "webhooks": found})


def _by_url(webhook: dict[str, Any], operator: Operator, port: int, bundle: str) -> dict[str, Any]:
    """A webhook of an operator's manifests, for one that runs outside the cluster."""
    url = f"https://127.0.0.1:{port}{webhook['clientConfig']['service']['path']}"
    by_label = {"objectSelector": {"matchExpressions": [{"key": operator.pods, "operator": "Exists"}]}}
    is_of_pods = any("pods" in rule["resources"] for rule in webhook["rules"])
    return {**webhook, "clientConfig": {"url": url, "caBundle": bundle}, **(by_label if is_of_pods else {})}


def _files(operator: Operator, folder: str) -> list[Path]:
    place = build_from_module(operator.name, operator.source) / folder
    return sorted(place.iterdir()) if place.exists() else []


def _is_served(url: str) -> bool:
    """Whether a webhook answers there, if only that it cannot read what it is sent."""
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    try:
        urllib.request.urlopen(url, b"{}", timeout=10, context=unverified).close()  # noqa: S310  - our own address
    except urllib.error.HTTPError as error:
        return error.code != 404
    return True
