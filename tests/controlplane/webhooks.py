"""Volcano's admission as its Helm chart registers it, but by URL: the webhook manager runs next to the cluster, not in
it."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Final, NamedTuple


class _Webhook(NamedTuple):
    path: str
    name: str
    group: str
    version: str
    resource: str
    operations: tuple[str, ...]
    in_all_namespaces: bool = False  # hypernodes are checked in every namespace, the others not in Volcano's own


_BATCH, _SCHEDULING, _TOPOLOGY = (
    ("batch.volcano.sh", "v1alpha1"),
    ("scheduling.volcano.sh", "v1beta1"),
    ("topology.volcano.sh", "v1alpha1"),
)
# The chart's `enabled_admissions`, with the rules of its templates/webhooks.yaml.
_WEBHOOKS: Final = (
    _Webhook("/jobs/mutate", "mutatejob", *_BATCH, "jobs", ("CREATE",)),
    _Webhook("/jobs/validate", "validatejob", *_BATCH, "jobs", ("CREATE", "UPDATE")),
    _Webhook("/podgroups/validate", "validatepodgroup", *_SCHEDULING, "podgroups", ("CREATE",)),
    _Webhook("/queues/mutate", "mutatequeue", *_SCHEDULING, "queues", ("CREATE",)),
    _Webhook("/queues/validate", "validatequeue", *_SCHEDULING, "queues", ("CREATE", "UPDATE", "DELETE")),
    _Webhook("/hypernodes/validate", "validatehypernodes", *_TOPOLOGY, "hypernodes", ("CREATE", "UPDATE"), True),
    _Webhook("/cronjobs/validate", "validatecronjob", *_BATCH, "cronjobs", ("CREATE", "UPDATE")),
)
ENABLED: Final = ",".join(webhook.path for webhook in _WEBHOOKS)


def webhook_configurations(port: int, ca: Path) -> list[dict[str, Any]]:
    """The webhook configurations that make the API server ask the webhook manager on that port."""
    bundle = base64.b64encode(ca.read_bytes()).decode()
    return [_configuration(webhook, port, bundle) for webhook in _WEBHOOKS]


def _configuration(webhook: _Webhook, port: int, bundle: str) -> dict[str, Any]:
    not_volcano = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["volcano-system", "kube-system"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration"
        if webhook.path.endswith("/mutate")
        else "ValidatingWebhookConfiguration",
        # The webhook manager looks its configurations up by this name and fills in its own CA.
        "metadata": {"name": "volcano-admission-service" + webhook.path.replace("/", "-")},
        "webhooks": [
            {
                "name": f"{webhook.name}.volcano.sh",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": f"https://127.0.0.1:{port}{webhook.path}", "caBundle": bundle},
                "failurePolicy": "Fail",
                "matchPolicy": "Equivalent",
                "namespaceSelector": {} if webhook.in_all_namespaces else {"matchExpressions": [not_volcano]},
                "rules": [
                    {
                        "apiGroups": [webhook.group],
                        "apiVersions": [webhook.version],
                        "operations": list(webhook.operations),
                        "resources": [webhook.resource],
                        "scope": "*",
                    }
                ],
                "sideEffects": "NoneOnDryRun",
                "timeoutSeconds": 10,
            }
        ],
    }
