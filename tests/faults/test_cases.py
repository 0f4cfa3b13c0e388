"""What once lost, doubled or deleted work, each as it was seen (the numbers are those of the first attack)."""

from __future__ import annotations

import contextlib
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from reconciler.inventory.shards import place_of
from tests.controlplane import ApiError
from tests.e2e.stories.story import QUEUES_PATH, VOLCANO_JOBS_PATH, Object, job_phase, job_pods, queue
from tests.faults import answers, git_faults, story
from tests.faults.kinds import JOBS, KINDS, Step
from tests.faults.proxy import Rule
from tests.faults.shared import SharedWorld
from tests.faults.world import CONFIGMAPS_PATH, LEASES_PATH, OWN_PATH, JobSpec, World, config_map

pytestmark = pytest.mark.e2e

DICE = random.Random(1)  # noqa: S311  - not a secret
POLICY: Object = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "closed", "namespace": "default"},
    "spec": {"podSelector": {}},
}
SERVICE_MONITOR: Object = {
    "apiVersion": "monitoring.coreos.com/v1",
    "kind": "ServiceMonitor",
    "metadata": {"name": "scrape", "namespace": "default"},
    "spec": {"selector": {}, "endpoints": []},
}


def is_there(world: World, path: str) -> bool:
    try:
        world.plane.api("GET", path)
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True


@contextlib.contextmanager
def disturbed(world: World) -> Iterator[None]:
    """A gang may be partly started for as long as this lasts."""
    world.witness.calm_since = float("inf")
    yield
    world.witness.calm_since = time.monotonic()


def run_once(world: World, name: str) -> None:
    """A job that runs and is gone: only the inventory remembers it."""
    world.declared.jobs[name] = JobSpec(1, 1, seconds=0.5, ttl=0)
    world.commit(f"{name} runs once")
    world.settle()
    world.wait(lambda: is_there(world, f"{VOLCANO_JOBS_PATH}/{name}"), lambda there: not there, "its TTL")


def test_s2_a_kind_that_is_not_found_for_a_moment_is_not_empty(shared_world: SharedWorld) -> None:
    """Seen once: 404 of a kind for a moment ended its jobs."""
    with shared_world.use() as world, disturbed(world):
        with world.proxy.rule(Rule(answers.refuse(404), "GET", JOBS)):
            world.proxy.cut_streams("/jobs")
            time.sleep(4)  # after 3 s a kind that was never served counts as empty
        pod = job_pods(world.plane, "long-0")[0]["metadata"]["name"]
        world.plane.api("DELETE", f"/api/v1/namespaces/default/pods/{pod}?gracePeriodSeconds=0")
        world.settle()
        decisions = {gang["name"]: gang["decision"] for gang in world.status()["gangs"]}
        assert decisions["long-0"] in ("run", "keep", "start", "running"), decisions


def test_s3_what_existed_before_is_released_and_never_deleted(shared_world: SharedWorld) -> None:
    """Seen once: what existed before gangplan was deleted."""
    with shared_world.use() as world:
        theirs = config_map("joined", "fast")
        theirs["data"]["extra"] = "theirs"
        world.plane.api("POST", f"{CONFIGMAPS_PATH}?fieldManager=helm", theirs)
        world.plane.api("POST", f"{QUEUES_PATH}?fieldManager=helm", queue("joined", weight=2))
        world.declared.modes["joined"], world.declared.weights["joined"] = "fast", 2
        world.commit("join what is there")
        world.settle()
        del world.declared.modes["joined"], world.declared.weights["joined"]
        commit = world.commit("and leave it")
        world.wait(lambda: world.status()["commit"], lambda seen: seen == commit, "the commit")
        time.sleep(2)
        found = world.plane.api("GET", f"{CONFIGMAPS_PATH}/joined")
        assert found["data"]["extra"] == "theirs"
        assert is_there(world, f"{QUEUES_PATH}/joined")
        world.plane.api("DELETE", f"{CONFIGMAPS_PATH}/joined")
        world.plane.api("DELETE", f"{QUEUES_PATH}/joined")
        world.settle()


def test_s4_a_finished_job_is_not_made_again_by_a_patch_that_comes_late(shared_world: SharedWorld) -> None:
    """Seen once: a patch that came late ran a finished job again."""
    with shared_world.use() as world:
        world.declared.jobs["brief"] = JobSpec(2, 1, seconds=3600.0, ttl=0)
        world.commit("a job that goes when it ends")
        world.wait(lambda: job_phase(world.plane, "brief"), lambda seen: seen == "Running", "the job", world.bar())
        hold = answers.Hold()
        hold.close_gate()
        with world.proxy.rule(Rule(hold, "PATCH", f"{VOLCANO_JOBS_PATH}/brief", times=1)) as rule:
            world.declared.jobs["brief"] = replace(world.declared.jobs["brief"], label="changed")
            world.commit("another label")
            assert rule.wait(world.bar()), "the label was not written"
            for pod in job_pods(world.plane, "brief"):
                path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/status"
                world.plane.api("PATCH", path, {"status": {"phase": "Succeeded"}})
            world.wait(lambda: is_there(world, f"{VOLCANO_JOBS_PATH}/brief"), lambda there: not there, "its end")
            hold.open_gate()
        world.settle()
        time.sleep(1)
        assert [*world.differences(), *world.violations()] == []


def test_s5_threads_survive_null_and_an_empty_kubeconfig(shared_world: SharedWorld) -> None:
    """Seen once: an unexpected answer ended a thread for good."""
    with shared_world.use() as world:
        listed = ("GET", r"\?limit")
        for kind, (method, question) in (("leases", ("PUT", "/")), ("queues", listed), ("configmaps", listed)):
            null = Rule(answers.answer_null, method, f"/{kind}{question}", times=1)
            expired = Rule(answers.expire_watch, "GET", rf"/{kind}\?.*watch=", times=1)  # so that it is listed again
            with world.proxy.rule(null), world.proxy.rule(expired):
                world.proxy.cut_streams(f"/{kind}$")
                assert null.wait(world.bar()), f"{kind} were not asked for"
        world.proxy.rotate_token(empty_for=3.0)
        story.drift(world, DICE)
        world.settle()
        story.add_gang(world, DICE)
        world.settle()


def test_s6_an_object_of_an_unserved_kind_holds_up_only_itself(shared_world: SharedWorld) -> None:
    """Seen once: one object of a kind that is not served stopped everything."""
    with shared_world.use() as world:
        world.declared.extra["monitor"] = SERVICE_MONITOR
        story.add_gang(world, DICE)
        world.settle()
        story.drift(world, DICE)
        world.settle()
        assert any("ServiceMonitor" in row["object"] for row in world.status()["held"])
        del world.declared.extra["monitor"]
        world.commit("without it")
        world.settle()


def test_s6b_an_object_for_which_a_right_is_missing_holds_up_only_itself(shared_world: SharedWorld) -> None:
    """Seen once: one missing right stopped all planning."""
    with shared_world.use() as world:
        world.declared.extra["policy"] = POLICY
        story.add_gang(world, DICE)
        world.settle()
        del world.declared.extra["policy"]
        story.remove_gang(world, DICE)
        world.settle()


def test_s9_an_inventory_deleted_by_hand_is_written_again(shared_world: SharedWorld) -> None:
    """Seen once: an inventory deleted by hand was the end."""
    with shared_world.use() as world:
        run_once(world, "once")
        for each in world.plane.api("GET", OWN_PATH)["items"]:
            if "inventory" in each["metadata"]["name"]:
                world.plane.api("DELETE", f"{OWN_PATH}/{each['metadata']['name']}")
        story.add_gang(world, DICE)
        world.settle()
        story.remove_gang(world, DICE)
        world.settle()


def test_tables_emptied_by_hand_are_written_again(shared_world: SharedWorld) -> None:
    """They read well. Believed, they would let what has run and is gone run again, and keep what leaves git."""
    with shared_world.use() as world:
        run_once(world, "remembered")
        tables = [each["metadata"]["name"] for each in world.plane.api("GET", OWN_PATH)["items"] if place_of(each)]
        assert len(tables) == 2
        for table in tables:
            world.plane.api("PATCH", f"{OWN_PATH}/{table}", {"data": {"rows.json": "[]\n"}})
        run_once(world, "written-into-them")
        world.reconciler.restart()
        story.remove_gang(world, DICE)
        world.settle()


def test_a_queue_and_a_label_of_its_jobs_change_in_one_commit(shared_world: SharedWorld) -> None:
    with shared_world.use() as world:
        world.declared.weights["team"] += 1
        story.relabel_gangs(world, DICE)
        world.settle()


def test_s13_pruning_does_not_wait_for_an_unrelated_object(shared_world: SharedWorld) -> None:
    """Seen once: pruning waited for every change of everything."""
    with shared_world.use() as world:
        gone = world.declared.modes.setdefault("goes", "soon")
        world.commit(f"something that goes {gone}")
        world.settle()
        world.plane.api("POST", f"{CONFIGMAPS_PATH}?fieldManager=their-tool", config_map("contested", "theirs"))
        world.declared.extra["contested"] = config_map("contested", "ours")
        del world.declared.modes["goes"]
        world.commit("what cannot be applied, and what is to go")
        world.wait(
            lambda: is_there(world, f"{CONFIGMAPS_PATH}/goes"), lambda there: not there, "the prune", world.bar()
        )
        del world.declared.extra["contested"]
        commit = world.commit("without the contested one")
        world.wait(lambda: world.status()["commit"], lambda seen: seen == commit, "the commit", world.bar())
        world.plane.api("DELETE", f"{CONFIGMAPS_PATH}/contested")
        world.settle()


def test_s15_a_lost_disk_while_a_rewritten_history_is_held(shared_world: SharedWorld) -> None:
    """Seen once: a held rewrite and a lost disk left no plan."""
    with shared_world.use() as world:
        old = git_faults.head_of(world.repository)
        first = world.repository.run_git("rev-list", "--max-parents=0", "HEAD")
        another = world.repository.run_git("commit-tree", "-m", "another past", f"{first}^{{tree}}")
        world.repository.run_git("update-ref", "refs/heads/main", another)
        world.wait(lambda: world.condition("HistoryRewritten")["status"], lambda seen: seen == "True", "the hold")
        world.reconciler.kill()
        shutil.rmtree(world.reconciler.folder / "data")
        world.reconciler.start()
        world.plane.api("PATCH", f"{QUEUES_PATH}/team", {"spec": {"weight": 77}})
        wanted = world.declared.weights["team"]
        world.wait(
            lambda: world.plane.api("GET", f"{QUEUES_PATH}/team")["spec"]["weight"],
            lambda seen: seen == wanted,
            "drift to be put back without a disk",
            world.bar(20),
        )
        world.repository.run_git("update-ref", "refs/heads/main", old)
        world.settle()


def test_s17_the_first_seconds_of_an_api_server_are_no_lasting_trouble(shared_world: SharedWorld) -> None:
    """Seen once: a restart of the API server cost 58 to 84 s."""
    with shared_world.use() as world:
        custom = Rule(answers.refuse(404), path=r"^/apis/[^/]*(volcano\.sh|kubeflow\.org)/")
        with world.proxy.rule(custom), world.proxy.rule(Rule(answers.refuse(403))):
            world.proxy.cut_streams()
            time.sleep(2)
        began = time.monotonic()
        story.add_gang(world, DICE)
        world.settle()
        listed = [each.at - began for each in world.proxy.log if each.at > began and "limit=" in each.query]
        assert max(listed, default=0.0) < 10 + world.calm_seconds, "a kind was listed again only much later"


def test_s18_a_half_open_watch_is_found_out(shared_world: SharedWorld) -> None:
    """Seen once: a half-open watch was not noticed."""
    with shared_world.use() as world:
        frozen = world.proxy.freeze_watches()
        assert frozen > 5
        began = time.monotonic()
        story.drift(world, DICE)
        world.settle()
        assert time.monotonic() - began < 12 + 2 * world.calm_seconds


def test_s20_watches_that_end_at_once_are_begun_again_with_pauses(shared_world: SharedWorld) -> None:
    """Seen once: watches that end at once were asked for 717 times a second."""
    with shared_world.use() as world:
        since = time.monotonic()
        with world.proxy.rule(Rule(answers.end_watch, "GET", "watch=")):
            world.proxy.cut_streams()
            time.sleep(4)
        asked = [each for each in world.proxy.log if each.at > since and each.method == "GET"]
        assert len(asked) < 250, f"{len(asked)} requests in 4 s"
        story.drift(world, DICE)
        world.settle()


def test_s24_a_hundred_failed_writes_of_the_inventory_pause_nothing_else(shared_world: SharedWorld) -> None:
    """Seen once: one failed write of the inventory paused everything."""
    failing = Rule(answers.refuse(500), "POST|PUT|PATCH", "inventory", chance=0.5)
    with shared_world.use() as world, world.proxy.rule(failing):
        story.drift(world, DICE)
        world.settle()


def test_the_new_run_of_a_job_is_made_though_the_reconciler_was_killed_after_it_deleted_the_former(
    shared_world: SharedWorld,
) -> None:
    with shared_world.use() as world, disturbed(world):
        world.declared.jobs["twice"] = JobSpec(1, 1, seconds=0.5, ttl=600)
        world.replaced_jobs.add("twice")
        world.commit("a job with a long time to live")
        world.wait(lambda: job_phase(world.plane, "twice"), lambda seen: seen == "Completed", "its end", world.bar())
        with KINDS["killed after a write"](world, Step("", "", 5.0, write="a delete")):
            former = world.plane.api("GET", f"{VOLCANO_JOBS_PATH}/twice")["metadata"]["uid"]
            world.declared.jobs["twice"] = replace(world.declared.jobs["twice"], seconds=0.6)
            world.commit("another run of it")
        world.wait(lambda: is_there(world, f"{VOLCANO_JOBS_PATH}/twice"), what="the new run", bar=world.bar())
        assert world.plane.api("GET", f"{VOLCANO_JOBS_PATH}/twice")["metadata"]["uid"] != former
        world.settle()


def test_a_lease_that_drips_is_asked_again(shared_world: SharedWorld) -> None:
    with shared_world.use() as world, world.proxy.rule(Rule(answers.drip(0.2, 8), "GET", LEASES_PATH, times=2)):
        story.change_settings(world, DICE)
        world.settle()
