"""Changes of whole objects where Volcano's webhooks or Kubernetes have rules, by kind; "" for every kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.differential.admission.objects import Object

Change = Callable[[Object], Any]


def _spec(found: Object) -> Object:
    spec: Object = found["spec"]
    return spec


def _tasks(found: Object) -> list[Object]:
    tasks: list[Object] = found["spec"]["tasks"]
    return tasks


def _misplaced_spec(found: Object) -> None:
    found["metadata"]["spec"] = found.pop("spec")


CHANGES: Mapping[str, Mapping[str, Change]] = {
    "": {
        "name upper": lambda it: it["metadata"].update(name="Upper"),
        "name underscore": lambda it: it["metadata"].update(name="a_b"),
        "name with dots": lambda it: it["metadata"].update(name="a.b"),
        "name of 63": lambda it: it["metadata"].update(name="n" * 63),
        "name of 60": lambda it: it["metadata"].update(name="n" * 60),
        "name of 53": lambda it: it["metadata"].update(name="n" * 53),
        "name of 250": lambda it: it["metadata"].update(name="n" * 250),
        "name of 254": lambda it: it["metadata"].update(name="n" * 254),
        "name with digit first": lambda it: it["metadata"].update(name="1a"),
        "name a number": lambda it: it["metadata"].update(name=1),
        "namespace upper": lambda it: it["metadata"].update(namespace="Team"),
        "label number": lambda it: it["metadata"].update(labels={"a": 1}),
        "label value bad": lambda it: it["metadata"].update(labels={"a": "x y"}),
        "label value long": lambda it: it["metadata"].update(labels={"a": "x" * 64}),
        "label key bad": lambda it: it["metadata"].update(labels={"a b": "x"}),
        "label key prefix bad": lambda it: it["metadata"].update(labels={"A_B/c": "x"}),
        "label null": lambda it: it["metadata"].update(labels={"a": None}),
        "annotation number": lambda it: it["metadata"].update(annotations={"a": 1}),
        "annotation key bad": lambda it: it["metadata"].update(annotations={"a b": "x"}),
        "annotation key upper": lambda it: it["metadata"].update(annotations={"A.B/c": "x"}),
        "annotation null": lambda it: it["metadata"].update(annotations={"a": None}),
        "labels a list": lambda it: it["metadata"].update(labels=["a"]),
        "finalizers": lambda it: it["metadata"].update(finalizers=["example.com/x"]),
        "finalizer bad": lambda it: it["metadata"].update(finalizers=["a b"]),
        "generateName": lambda it: (it["metadata"].pop("name"), it["metadata"].update(generateName="gen-")),
        "generateName and name": lambda it: it["metadata"].update(generateName="gen-"),
        "no name": lambda it: it["metadata"].pop("name"),
        "creationTimestamp null": lambda it: it["metadata"].update(creationTimestamp=None),
        "unknown metadata field": lambda it: it["metadata"].update(label={"a": "b"}),
        "spec below metadata": _misplaced_spec,
        "no spec": lambda it: it.pop("spec"),
        "spec null": lambda it: it.update(spec=None),
        "spec a list": lambda it: it.update(spec=[it["spec"]]),
        "unknown top field": lambda it: it.update(template={}),
        "status": lambda it: it.update(status={}),
        "ownerReferences without uid": lambda it: it["metadata"].update(
            ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "x"}]
        ),
    },
    "Job.batch.volcano.sh": {
        "minAvailable above replicas": lambda it: _spec(it).update(minAvailable=99),
        "minAvailable 1": lambda it: _spec(it).update(minAvailable=1),
        "minAvailable 0": lambda it: _spec(it).update(minAvailable=0),
        "task minAvailable above replicas": lambda it: _tasks(it)[0].update(minAvailable=9),
        "task minAvailable 0": lambda it: _tasks(it)[0].update(minAvailable=0),
        "two tasks of a name": lambda it: _tasks(it)[1].update(name="master"),
        "task without name": lambda it: _tasks(it)[0].pop("name"),
        "task name empty": lambda it: _tasks(it)[0].update(name=""),
        "task name upper": lambda it: _tasks(it)[0].update(name="Master"),
        "task name 63": lambda it: _tasks(it)[0].update(name="t" * 63),
        "task name 50": lambda it: _tasks(it)[0].update(name="t" * 50),
        "no tasks": lambda it: _spec(it).update(tasks=[]),
        "replicas 0": lambda it: _tasks(it)[0].update(replicas=0),
        "replicas negative": lambda it: _tasks(it)[0].update(replicas=-1),
        "no replicas": lambda it: _tasks(it)[0].pop("replicas"),
        "queue unknown": lambda it: _spec(it).update(queue="nothing"),
        "queue empty": lambda it: _spec(it).update(queue=""),
        "queue root": lambda it: _spec(it).update(queue="root"),
        "priority class unknown": lambda it: _spec(it).update(priorityClassName="nothing"),
        "event unknown": lambda it: _spec(it).update(policies=[{"event": "PodFail", "action": "AbortJob"}]),
        "event internal": lambda it: _spec(it).update(policies=[{"event": "OutOfSync", "action": "AbortJob"}]),
        "event PodRunning": lambda it: _spec(it).update(policies=[{"event": "PodRunning", "action": "AbortJob"}]),
        "action unknown": lambda it: _spec(it).update(policies=[{"event": "PodFailed", "action": "Restart"}]),
        "action missing": lambda it: _spec(it).update(policies=[{"event": "PodFailed"}]),
        "action unknown at exit code": lambda it: _spec(it).update(policies=[{"exitCode": 3, "action": "Restart"}]),
        "action missing at exit code": lambda it: _spec(it).update(policies=[{"exitCode": 3}]),
        "event and exit code": lambda it: _spec(it).update(
            policies=[{"event": "PodFailed", "exitCode": 3, "action": "AbortJob"}]
        ),
        "neither event nor exit code": lambda it: _spec(it).update(policies=[{"action": "AbortJob"}]),
        "exit code 0": lambda it: _spec(it).update(policies=[{"exitCode": 0, "action": "AbortJob"}]),
        "two policies for an event": lambda it: _spec(it).update(
            policies=[{"event": "PodFailed", "action": "AbortJob"}, {"event": "PodFailed", "action": "RestartJob"}]
        ),
        "an event twice in one policy": lambda it: _spec(it).update(
            policies=[{"event": "PodFailed", "events": ["PodFailed"], "action": "AbortJob"}]
        ),
        "any event and another": lambda it: _spec(it).update(
            policies=[{"event": "*", "action": "AbortJob"}, {"event": "PodFailed", "action": "RestartJob"}]
        ),
        "any event and an exit code": lambda it: _spec(it).update(
            policies=[{"event": "*", "action": "AbortJob"}, {"exitCode": 3, "action": "RestartJob"}]
        ),
        "policy timeout": lambda it: _spec(it).update(
            policies=[{"event": "PodPending", "action": "AbortJob", "timeout": "1 hour"}]
        ),
        "plugin unknown": lambda it: _spec(it).update(plugins={"horovod": []}),
        "plugin null": lambda it: _spec(it).update(plugins={"svc": None}),
        "plugin mpi without master": lambda it: _spec(it).update(plugins={"mpi": ["--master=chief"]}),
        "plugin mpi": lambda it: _spec(it).update(plugins={"mpi": []}),
        "plugin pytorch": lambda it: _spec(it).update(plugins={"pytorch": ["--master=master", "--port=23456"]}),
        "plugin argument number": lambda it: _spec(it).update(plugins={"svc": [1]}),
        "both tier fields": lambda it: _spec(it).update(
            networkTopology={"mode": "hard", "highestTierAllowed": 1, "highestTierName": "a"}
        ),
        "tier 0": lambda it: _spec(it).update(networkTopology={"mode": "hard", "highestTierAllowed": 0}),
        "mode empty": lambda it: _spec(it).update(networkTopology={"mode": ""}),
        "mode upper": lambda it: _spec(it).update(networkTopology={"mode": "Hard"}),
        "volume without mountPath": lambda it: _spec(it).update(volumes=[{"volumeClaimName": "a"}]),
        "volume without claim": lambda it: _spec(it).update(volumes=[{"mountPath": "/a"}]),
        "volume with both claims": lambda it: _spec(it).update(
            volumes=[{"mountPath": "/a", "volumeClaimName": "a", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]
        ),
        "volume claim empty": lambda it: _spec(it).update(volumes=[{"mountPath": "/a", "volumeClaim": {}}]),
        "volume claim name bad": lambda it: _spec(it).update(volumes=[{"mountPath": "/a", "volumeClaimName": "A_b"}]),
        "volume twice": lambda it: _spec(it).update(volumes=[{"mountPath": "/a", "volumeClaimName": "a"}] * 2),
        "dependsOn unknown": lambda it: _tasks(it)[1].update(dependsOn={"name": ["chief"]}),
        "dependsOn itself": lambda it: _tasks(it)[1].update(dependsOn={"name": ["worker"]}),
        "dependsOn circle": lambda it: (
            _tasks(it)[0].update(dependsOn={"name": ["worker"]}),
            _tasks(it)[1].update(dependsOn={"name": ["master"]}),
        ),
        "dependsOn iteration": lambda it: _tasks(it)[1].update(dependsOn={"name": ["master"], "iteration": "some"}),
        "partitions do not fit": lambda it: _tasks(it)[0].update(
            partitionPolicy={"totalPartitions": 2, "partitionSize": 3}
        ),
        "partition size 0": lambda it: _tasks(it)[0].update(partitionPolicy={"totalPartitions": 2, "partitionSize": 0}),
        "partition without size": lambda it: _tasks(it)[0].update(partitionPolicy={"totalPartitions": 1}),
        "minPartitions above": lambda it: _tasks(it)[0].update(
            partitionPolicy={"totalPartitions": 1, "partitionSize": 1, "minPartitions": 2}
        ),
        "topologyPolicy": lambda it: _tasks(it)[0].update(topologyPolicy="best-effort"),
        "topologyPolicy bad": lambda it: _tasks(it)[0].update(topologyPolicy="numa"),
        "topologyPolicy fraction of cpu": lambda it: (
            _tasks(it)[0].update(topologyPolicy="restricted"),
            _tasks(it)[0]["template"]["spec"]["containers"][0]["resources"]["requests"].update(cpu="1500m"),
        ),
        "maxRetry negative": lambda it: _spec(it).update(maxRetry=-1),
        "minSuccess 0": lambda it: _spec(it).update(minSuccess=0),
        "ttl negative": lambda it: _spec(it).update(ttlSecondsAfterFinished=-1),
        "runningEstimate seconds": lambda it: _spec(it).update(runningEstimate="3600"),
        "runningEstimate bad": lambda it: _spec(it).update(runningEstimate="soon"),
        "schedulerName other": lambda it: _spec(it).update(schedulerName="default-scheduler"),
        "schedulerName empty": lambda it: _spec(it).update(schedulerName=""),
        "template without spec": lambda it: _tasks(it)[0]["template"].pop("spec"),
        "no template": lambda it: _tasks(it)[0].pop("template"),
        "template label bad": lambda it: _tasks(it)[0]["template"]["metadata"].update(labels={"a": "b c"}),
        "template annotation number": lambda it: _tasks(it)[0]["template"]["metadata"].update(annotations={"a": 1}),
        "template metadata name": lambda it: _tasks(it)[0]["template"]["metadata"].update(name="web"),
        "template metadata null": lambda it: _tasks(it)[0]["template"].update(metadata=None),
        "template creationTimestamp": lambda it: _tasks(it)[0]["template"]["metadata"].update(creationTimestamp=None),
    },
    "Queue.scheduling.volcano.sh": {
        "guarantee without deserved": lambda it: _spec(it).pop("deserved"),
        "guarantee above deserved": lambda it: _spec(it)["deserved"].update(cpu="4"),
        "deserved above capability": lambda it: _spec(it).update(capability={"cpu": 8}),
        "parent empty": lambda it: _spec(it).update(parent=""),
        "parent itself": lambda it: _spec(it).update(parent=it["metadata"]["name"]),
        "parent unknown": lambda it: _spec(it).update(parent="nothing"),
        "parent root": lambda it: _spec(it).update(parent="root"),
        "parent org": lambda it: _spec(it).update(parent="org"),
        "capability above the parent's": lambda it: _spec(it).update(parent="org", capability={"cpu": 65}),
        "weight 0": lambda it: _spec(it).update(weight=0),
        "weight 65536": lambda it: _spec(it).update(weight=65536),
        "weight negative": lambda it: _spec(it).update(weight=-1),
        "priority negative": lambda it: _spec(it).update(priority=-1),
        "reclaimable text": lambda it: _spec(it).update(reclaimable="true"),
        "capability float": lambda it: _spec(it).update(capability={"cpu": 64.5}),
        "capability negative": lambda it: _spec(it).update(capability={"cpu": "-1"}),
        "capability fraction of a device": lambda it: _spec(it).update(capability={"nvidia.com/gpu": "8.5"}),
        "capability bad": lambda it: _spec(it).update(capability={"cpu": "lots"}),
        "capability null": lambda it: _spec(it).update(capability=None),
        "capability null quantity": lambda it: _spec(it).update(capability={"cpu": None}),
        "capability unknown resource": lambda it: _spec(it).update(capability={"gpu": 1}),
        "dequeueStrategy": lambda it: _spec(it).update(dequeueStrategy="FIFO"),
        "state": lambda it: _spec(it).update(state="Open"),
        "status Closed": lambda it: it.update(status={"state": "Closed"}),
        "hierarchy without weights": lambda it: it["metadata"].update(
            annotations={"volcano.sh/hierarchy": "root/a/b", "volcano.sh/hierarchy-weights": "1/2"}
        ),
        "hierarchy": lambda it: it["metadata"].update(
            annotations={"volcano.sh/hierarchy": "root/a/b", "volcano.sh/hierarchy-weights": "1/2/3"}
        ),
        "hierarchy weight 0": lambda it: it["metadata"].update(
            annotations={"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/0"}
        ),
        "guarantee misplaced": lambda it: _spec(it).update(guarantee={"cpu": "8"}),
        "extendClusters": lambda it: _spec(it).update(extendClusters=[{"name": "a", "weight": 1}]),
        "extendClusters bad": lambda it: _spec(it).update(extendClusters=[{"name": "a", "wieght": 1}]),
        "type": lambda it: _spec(it).update(type="normal"),
    },
    "PodGroup.scheduling.volcano.sh": {
        "queue unknown": lambda it: _spec(it).update(queue="nothing"),
        "queue empty": lambda it: _spec(it).update(queue=""),
        "minMember negative": lambda it: _spec(it).update(minMember=-1),
        "minMember 0": lambda it: _spec(it).update(minMember=0),
        "no minMember": lambda it: _spec(it).pop("minMember"),
        "both tier fields": lambda it: _spec(it).update(
            networkTopology={"highestTierAllowed": 1, "highestTierName": "a"}
        ),
        "subgroup without name": lambda it: _spec(it).update(subGroupPolicy=[{"subGroupSize": 2}]),
        "subgroup size 0": lambda it: _spec(it).update(subGroupPolicy=[{"name": "a", "subGroupSize": 0}]),
        "subgroups of a name": lambda it: _spec(it).update(subGroupPolicy=[{"name": "a"}, {"name": "a"}]),
        "subgroup both tiers": lambda it: _spec(it).update(
            subGroupPolicy=[{"name": "a", "networkTopology": {"highestTierAllowed": 1, "highestTierName": "a"}}]
        ),
        "minResources null": lambda it: _spec(it).update(minResources={"cpu": None}),
        "minResources bad": lambda it: _spec(it).update(minResources={"cpu": "1 2"}),
        "minResources negative": lambda it: _spec(it).update(minResources={"cpu": "-1"}),
        "minTaskMember text": lambda it: _spec(it).update(minTaskMember={"worker": "2"}),
        "minTaskMember more": lambda it: _spec(it).update(minTaskMember={"worker": 20}),
        "priority class unknown": lambda it: _spec(it).update(priorityClassName="nothing"),
        "status": lambda it: it.update(status={"phase": "Pending"}),
    },
    "HyperNode.topology.volcano.sh": {
        "no members": lambda it: _spec(it).update(members=[]),
        "no tier": lambda it: _spec(it).pop("tier"),
        "tier text": lambda it: _spec(it).update(tier="1"),
        "tier negative": lambda it: _spec(it).update(tier=-1),
        "tier 0": lambda it: _spec(it).update(tier=0),
        "member type": lambda it: _spec(it)["members"][0].update(type="node"),
        "no member type": lambda it: _spec(it)["members"][0].pop("type"),
        "no selector": lambda it: _spec(it)["members"][0].pop("selector"),
        "empty selector": lambda it: _spec(it)["members"][0].update(selector={}),
        "two selectors": lambda it: _spec(it)["members"][0].update(
            selector={"exactMatch": {"name": "a"}, "regexMatch": {"pattern": "a"}}
        ),
        "exactMatch empty": lambda it: _spec(it)["members"][0].update(selector={"exactMatch": {"name": ""}}),
        "exactMatch without name": lambda it: _spec(it)["members"][0].update(selector={"exactMatch": {}}),
        "regex broken": lambda it: _spec(it)["members"][0].update(selector={"regexMatch": {"pattern": "a(b"}}),
        "regex empty": lambda it: _spec(it)["members"][0].update(selector={"regexMatch": {"pattern": ""}}),
        "labelMatch bad operator": lambda it: _spec(it)["members"][0].update(
            selector={"labelMatch": {"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]}}
        ),
        "labelMatch empty": lambda it: _spec(it)["members"][0].update(selector={"labelMatch": {}}),
        "labelMatch on HyperNode": lambda it: _spec(it)["members"][0].update(
            type="HyperNode", selector={"labelMatch": {"matchLabels": {"a": "b"}}}
        ),
    },
    "Job.batch": {
        "parallelism negative": lambda it: _spec(it).update(parallelism=-1),
        "completions negative": lambda it: _spec(it).update(completions=-1),
        "backoffLimit negative": lambda it: _spec(it).update(backoffLimit=-1),
        "indexed without completions": lambda it: (
            _spec(it).pop("completions"),
            _spec(it).update(completionMode="Indexed"),
        ),
        "completionMode": lambda it: _spec(it).update(completionMode="indexed"),
        "selector given": lambda it: _spec(it).update(selector={"matchLabels": {"app": "train"}}),
        "manualSelector": lambda it: _spec(it).update(selector={"matchLabels": {"app": "train"}}, manualSelector=True),
        "ttl negative": lambda it: _spec(it).update(ttlSecondsAfterFinished=-1),
        "deadline 0": lambda it: _spec(it).update(activeDeadlineSeconds=0),
        "replicas": lambda it: _spec(it).update(replicas=2),
        "no template": lambda it: _spec(it).pop("template"),
        "podFailurePolicy": lambda it: _spec(it).update(
            podFailurePolicy={"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
        ),
    },
    "Deployment.apps": {
        "no selector": lambda it: _spec(it).pop("selector"),
        "selector matches nothing": lambda it: _spec(it).update(selector={"matchLabels": {"app": "other"}}),
        "empty selector": lambda it: _spec(it).update(selector={}),
        "replicas negative": lambda it: _spec(it).update(replicas=-1),
        "strategy": lambda it: _spec(it).update(strategy={"type": "rolling"}),
        "recreate with rolling": lambda it: _spec(it).update(
            strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}
        ),
        "both zero": lambda it: _spec(it).update(
            strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}
        ),
        "maxSurge bad": lambda it: _spec(it).update(
            strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "a lot"}}
        ),
    },
    "StatefulSet.apps": {
        "no selector": lambda it: _spec(it).pop("selector"),
        "selector matches nothing": lambda it: _spec(it).update(selector={"matchLabels": {"app": "other"}}),
        "no serviceName": lambda it: _spec(it).pop("serviceName"),
        "podManagementPolicy": lambda it: _spec(it).update(podManagementPolicy="parallel"),
    },
    "CronJob.batch": {
        "schedule bad": lambda it: _spec(it).update(schedule="every day"),
        "schedule empty": lambda it: _spec(it).update(schedule=""),
        "schedule with TZ": lambda it: _spec(it).update(schedule="TZ=UTC 0 3 * * *"),
        "schedule of six": lambda it: _spec(it).update(schedule="0 0 3 * * *"),
        "schedule @daily": lambda it: _spec(it).update(schedule="@daily"),
        "time zone unknown": lambda it: _spec(it).update(timeZone="Europe/Nowhere"),
        "time zone empty": lambda it: _spec(it).update(timeZone=""),
        "concurrencyPolicy": lambda it: _spec(it).update(concurrencyPolicy="forbid"),
        "history negative": lambda it: _spec(it).update(successfulJobsHistoryLimit=-1),
    },
    "CronJob.batch.volcano.sh": {
        "schedule bad": lambda it: _spec(it).update(schedule="every day"),
        "schedule empty": lambda it: _spec(it).update(schedule=""),
        "schedule with TZ": lambda it: _spec(it).update(schedule="TZ=UTC 0 3 * * *"),
        "schedule of ranges": lambda it: _spec(it).update(schedule="0-30/5 8-18 * * MON-FRI"),
        "schedule out of range": lambda it: _spec(it).update(schedule="60 3 * * *"),
        "time zone unknown": lambda it: _spec(it).update(timeZone="Europe/Nowhere"),
        "time zone local": lambda it: _spec(it).update(timeZone="Local"),
        "concurrencyPolicy": lambda it: _spec(it).update(concurrencyPolicy="forbid"),
        "jobTemplate queue unknown": lambda it: _spec(it)["jobTemplate"]["spec"].update(queue="nothing"),
    },
    "ResourceQuota.": {
        "hard negative": lambda it: _spec(it).update(hard={"cpu": "-1"}),
        "hard unknown": lambda it: _spec(it).update(hard={"gpu": "1"}),
        "hard limits of a device": lambda it: _spec(it).update(hard={"limits.nvidia.com/gpu": "1"}),
        "hard device": lambda it: _spec(it).update(hard={"nvidia.com/gpu": "1"}),
        "hard fraction": lambda it: _spec(it).update(hard={"pods": "1.5"}),
        "scope": lambda it: _spec(it).update(scopes=["besteffort"]),
    },
    "PodDisruptionBudget.policy": {
        "both": lambda it: _spec(it).update(minAvailable=1, maxUnavailable=1),
        "negative": lambda it: _spec(it).update(minAvailable=-1),
        "percent": lambda it: _spec(it).update(minAvailable="150%"),
        "selector bad": lambda it: _spec(it).update(selector={"matchLabels": {"a": "b c"}}),
    },
    "PyTorchJob.kubeflow.org": {
        "no replica specs": lambda it: _spec(it).pop("pytorchReplicaSpecs"),
        "replica type lower": lambda it: _spec(it)["pytorchReplicaSpecs"].update(
            worker=_spec(it)["pytorchReplicaSpecs"].pop("Worker")
        ),
        "replicas negative": lambda it: _spec(it)["pytorchReplicaSpecs"]["Worker"].update(replicas=-1),
        "restartPolicy lower": lambda it: _spec(it)["pytorchReplicaSpecs"]["Worker"].update(restartPolicy="never"),
        "cleanPodPolicy lower": lambda it: _spec(it).update(runPolicy={"cleanPodPolicy": "running"}),
        "schedulingPolicy typo": lambda it: _spec(it).update(runPolicy={"schedulingPolicy": {"minAvailble": 2}}),
    },
    "JobFlow.flow.volcano.sh": {
        "flow without name": lambda it: _spec(it)["flows"][0].pop("name"),
        "two flows of a name": lambda it: _spec(it)["flows"][1].update(name="prepare"),
        "target unknown": lambda it: _spec(it)["flows"][1]["dependsOn"].update(targets=["nothing"]),
        "circle": lambda it: _spec(it)["flows"][0].update(dependsOn={"targets": ["train"]}),
        "jobRetainPolicy": lambda it: _spec(it).update(jobRetainPolicy="keep"),
    },
}
