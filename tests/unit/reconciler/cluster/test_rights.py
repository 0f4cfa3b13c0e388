"""Rights come from the kinds that a repository holds, and there are no others."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import reconciler.cli  # noqa: F401 - adds the command
from compiler.cli.root import cli
from compiler.rights import DEFAULT_KINDS, KindInUse
from reconciler.cluster.rights import admission_objects, plural_of, rbac_objects


def granted(kinds: tuple[KindInUse, ...]) -> dict[tuple[str, str, str], set[str]]:
    """(namespace, group, resource) -> verbs."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for thing in rbac_objects(kinds):
        for rule in thing.get("rules", ()):
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    key = thing["metadata"].get("namespace", ""), group, resource
                    assert key not in found, "each right is given once"
                    found[key] = set(rule["verbs"])
    return found


def test_plurals() -> None:
    kinds = "Job PriorityClass NetworkPolicy Ingress Gateway PersistentVolumeClaim"
    plurals = "jobs priorityclasses networkpolicies ingresses gateways persistentvolumeclaims"
    assert [*map(plural_of, kinds.split())] == plurals.split()


def test_nothing_is_granted_wholesale() -> None:
    rights = granted(DEFAULT_KINDS)
    for (_, group, resource), verbs in rights.items():
        assert "*" not in {group, resource, *verbs}
        assert not {"bind", "escalate", "impersonate", "deletecollection"} & verbs
        assert resource != "secrets"
    assert rights["", "", "pods"] == {"list", "watch", "patch"}, "no pod is asked for by name, created or deleted"
    assert rights["", "", "configmaps"] == {"list", "watch"}, (
        "written only where a plan has them; read also fairshare's"
    )
    assert ("", "", "namespaces") not in rights
    assert ("", "", "services") not in rights


def test_a_kind_in_use_may_be_written_and_what_is_only_counted_may_be_read() -> None:
    few = granted((KindInUse("", "PersistentVolumeClaim"), KindInUse("", "ConfigMap", "team")))
    assert "delete" in few["", "", "persistentvolumeclaims"]
    assert few["", "batch.volcano.sh", "jobs"] == {"list", "watch"}
    assert few["team", "", "configmaps"] == {"get", "create", "patch", "delete"}
    assert ("volcano-system", "", "configmaps") not in few


def test_policies_are_entered_only_by_the_account_and_only_by_what_breaks_a_rule() -> None:
    policies = [thing for thing in admission_objects("here") if thing["kind"] == "ValidatingAdmissionPolicy"]
    assert {policy["metadata"]["name"] for policy in policies} == {"gangplan-here-pods", "gangplan-here-configmaps"}
    for policy in policies:
        (condition,) = policy["spec"]["matchConditions"]
        user, _, breach = condition["expression"].partition(" && ")
        assert user == "request.userInfo.username == 'system:serviceaccount:here:gangplan'"
        rules = (f"({rule['expression']})" for rule in policy["spec"]["validations"])
        assert breach == f"!({' && '.join(rules)})"
        assert policy["spec"]["failurePolicy"] == "Fail"


@pytest.mark.parametrize("other", ["team", "volcano-system"])
def test_two_installs_share_no_name(other: str) -> None:
    """The rights of a second one, in another namespace, replaced the first one's: its requests were refused."""

    def names(namespace: str) -> set[tuple[str, str, str]]:
        kinds = (*DEFAULT_KINDS, KindInUse("", "ConfigMap", "team"), KindInUse("", "ConfigMap", "gangplan-system"))
        made = [*rbac_objects(kinds, namespace), *admission_objects(namespace)]
        return {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]) for each in made}

    first = names("gangplan-system")
    assert not first & names(other)
    assert ("ClusterRole", "", "gangplan") in first, "an upgrade leaves nothing behind"
    assert ("Role", "volcano-system", "gangplan") in first


def test_bindings_name_their_roles_and_the_account() -> None:
    made = rbac_objects(DEFAULT_KINDS, "team")
    roles = {(each["kind"], each["metadata"]["name"]) for each in made if "rules" in each}
    for binding in (each for each in made if "roleRef" in each):
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) in roles
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "gangplan", "namespace": "team"}]
    for binding in (each for each in admission_objects("team") if "policyName" in each["spec"]):
        assert binding["spec"]["policyName"] == binding["metadata"]["name"]


def test_the_command_prints_the_rights_of_a_repository() -> None:
    repository = Path(__file__).resolve().parents[4]
    done = CliRunner().invoke(cli, ["rbac", "--repo", str(repository), "--namespace", "here"])
    assert done.exit_code == 0, done.output
    objects = list(yaml.safe_load_all(done.output))
    assert {"ClusterRole", "Role", "ValidatingAdmissionPolicy", "ServiceAccount"} <= {each["kind"] for each in objects}
    assert all(each["metadata"].get("namespace", "here") != "gangplan-system" for each in objects)


def test_a_repository_without_a_cluster_is_one_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["rbac", "--repo", str(tmp_path)])
    assert done.exit_code == 1
    assert done.output.startswith("Error: ")
    assert done.output.count("\n") == 1
