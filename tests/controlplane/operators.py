"""The operators whose jobs gangplan plans, each built from its module and run next to a control plane on demand.

They run as in their own releases: Volcano named as the gang scheduler where they know it, their admission webhooks
called by URL with the control plane's certificates. Nothing of them is built or started unless a test asks for it.
"""

from __future__ import annotations

import base64
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.controlplane.module_build import Replacement, Source, build_from_module
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import free_ports
from tests.controlplane.recipe import Module


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


def _operators() -> tuple[Operator, ...]:
    known = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
    modules = {name: Module(*said) for name, said in known["modules"].items()}
    return tuple(_operator(name, modules, **said) for name, said in known["operators"].items())


def _operator(
    name: str,
    modules: Mapping[str, Module],
    *,
    module: str,
    package: str,
    files: list[list[str]],
    arguments: list[str],
    replacements: Iterable[list[str]] = (),
    beside: str = "",
    **more: str,
) -> Operator:
    changes, places = tuple(Replacement(*each) for each in replacements), tuple((to, found) for to, found in files)
    source = Source(modules[module], package, places, changes, modules.get(beside))
    return Operator(name, source, tuple(arguments), **more)


OPERATORS: Final = _operators()


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
