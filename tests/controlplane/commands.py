"""The command line of each component. Ports and files are all of one control plane's own; nothing listens beyond the
loopback address."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import yaml

from tests.controlplane import quiet_user, webhooks
from tests.controlplane.processes import free_ports

_COMMANDS: Final = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())


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
    values = {
        **{name: str(port) for name, port in ports._asdict().items()},
        **{"work": work, "keys": work / "keys", "admin": work / "admin.kubeconfig", "audit": work / AUDIT_LOG},
        **{"volcano": work / f"{quiet_user.USER}.kubeconfig", "admissions": webhooks.ENABLED},
    }
    return {
        name: [str(cache / "bin" / name), *(argument.format_map(values) for argument in arguments)]
        for name, arguments in _COMMANDS.items()
    }
