"""Changes of values in a pod spec, one for each rule of Kubernetes' validation, and some that are fine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.differential.admission.objects import Object

CHANGES: Mapping[str, Callable[[Object], Any]] = {
    "request above limit": lambda pod: _resources(pod)["requests"].update(cpu="9"),
    "request equal to limit": lambda pod: _resources(pod)["requests"].update(cpu=8),
    "device request without limit": lambda pod: _resources(pod)["limits"].pop("nvidia.com/gpu"),
    "device limit without request": lambda pod: _resources(pod)["requests"].pop("nvidia.com/gpu"),
    "device request below limit": lambda pod: _resources(pod)["limits"].update({"nvidia.com/gpu": 16}),
    "fraction of a device": lambda pod: _resources(pod).update(limits={"nvidia.com/gpu": "0.5"}, requests={}),
    "negative request": lambda pod: _resources(pod)["requests"].update(cpu="-1"),
    "quantity with a blank": lambda pod: _resources(pod)["requests"].update(memory="8 Gi"),
    "quantity with wrong unit": lambda pod: _resources(pod)["requests"].update(memory="8GB"),
    "null quantity": lambda pod: _resources(pod)["requests"].update(cpu=None),
    "float quantity": lambda pod: _resources(pod)["requests"].update(cpu=0.5),
    "unknown short resource": lambda pod: _resources(pod)["limits"].update(gpu=1),
    "own resource": lambda pod: _resources(pod)["limits"].update({"example.com/dongle": 1}),
    "resource name with two slashes": lambda pod: _resources(pod)["limits"].update({"a.b/c/d": 1}),
    "resource of kubernetes.io": lambda pod: _resources(pod)["limits"].update({"kubernetes.io/foo": 1}),
    "requests. as resource": lambda pod: _resources(pod)["limits"].update({"requests.nvidia.com/gpu": 1}),
    "hugepages without memory": lambda pod: pod["containers"][0].update(resources={"limits": {"hugepages-2Mi": "4Mi"}}),
    "hugepages request differs": lambda pod: (
        _resources(pod)["limits"].update({"hugepages-2Mi": "4Mi"}),
        _resources(pod)["requests"].update({"hugepages-2Mi": "2Mi"}),
    ),
    "hugepages": lambda pod: _resources(pod)["limits"].update({"hugepages-2Mi": "4Mi"}),
    "ephemeral storage": lambda pod: _resources(pod)["limits"].update({"ephemeral-storage": "4Gi"}),
    "init request above limit": lambda pod: pod["initContainers"][0].update(
        resources={"requests": {"cpu": 2}, "limits": {"cpu": 1}}
    ),
    "claims without resourceClaims": lambda pod: _resources(pod).update(claims=[{"name": "gpu"}]),
    "restartPolicy Always": lambda pod: pod.update(restartPolicy="Always"),
    "restartPolicy Never": lambda pod: pod.update(restartPolicy="Never"),
    "restartPolicy OnFailure": lambda pod: pod.update(restartPolicy="OnFailure"),
    "no restartPolicy": lambda pod: pod.pop("restartPolicy"),
    "restartPolicy lower case": lambda pod: pod.update(restartPolicy="never"),
    "no image": lambda pod: pod["containers"][0].pop("image"),
    "blank around image": lambda pod: pod["containers"][0].update(image=" img "),
    "no container name": lambda pod: pod["containers"][0].pop("name"),
    "container name upper": lambda pod: pod["containers"][0].update(name="Main"),
    "container name underscore": lambda pod: pod["containers"][0].update(name="my_main"),
    "container name long": lambda pod: pod["containers"][0].update(name="m" * 64),
    "container name with dot": lambda pod: pod["containers"][0].update(name="a.b"),
    "two containers of a name": lambda pod: pod["containers"].append({"name": "main", "image": "x"}),
    "init container of a container's name": lambda pod: pod["initContainers"][0].update(name="main"),
    "no containers": lambda pod: pod.update(containers=[]),
    "pull policy": lambda pod: pod["containers"][0].update(imagePullPolicy="ifNotPresent"),
    "two volumes of a name": lambda pod: pod["volumes"].append({"name": "shm", "emptyDir": {}}),
    "volume without source": lambda pod: pod["volumes"][0].pop("persistentVolumeClaim"),
    "volume with two sources": lambda pod: pod["volumes"][0].update(emptyDir={}),
    "volume name upper": lambda pod: pod["volumes"][2].update(name="Conf"),
    "volume name underscore": lambda pod: pod["volumes"][2].update(name="my_conf"),
    "volume without name": lambda pod: pod["volumes"][2].pop("name"),
    "hostPath without path": lambda pod: pod["volumes"][4]["hostPath"].pop("path"),
    "hostPath with dots": lambda pod: pod["volumes"][4]["hostPath"].update(path="/a/../b"),
    "hostPath type": lambda pod: pod["volumes"][4]["hostPath"].update(type="directory"),
    "claimName missing": lambda pod: pod["volumes"][0].update(persistentVolumeClaim={}),
    "configMap without name": lambda pod: pod["volumes"][2]["configMap"].pop("name"),
    "secret without name": lambda pod: pod["volumes"][3].update(secret={}),
    "mode out of range": lambda pod: pod["volumes"][2]["configMap"].update(defaultMode=1000),
    "mode fine": lambda pod: pod["volumes"][2]["configMap"].update(defaultMode=511),
    "item path absolute": lambda pod: pod["volumes"][2]["configMap"]["items"][0].update(path="/etc/a"),
    "item path with dots": lambda pod: pod["volumes"][2]["configMap"]["items"][0].update(path="../a"),
    "item without key": lambda pod: pod["volumes"][2]["configMap"]["items"][0].pop("key"),
    "medium unknown": lambda pod: pod["volumes"][1]["emptyDir"].update(medium="memory"),
    "sizeLimit negative": lambda pod: pod["volumes"][1]["emptyDir"].update(sizeLimit="-1"),
    "nfs": lambda pod: pod["volumes"].append({"name": "nfs", "nfs": {"server": "a", "path": "/x"}}),
    "nfs relative path": lambda pod: pod["volumes"].append({"name": "nfs", "nfs": {"server": "a", "path": "x"}}),
    "nfs without server": lambda pod: pod["volumes"].append({"name": "nfs", "nfs": {"path": "/x"}}),
    "mount of no volume": lambda pod: _mounts(pod)[0].update(name="nothing"),
    "mount without path": lambda pod: _mounts(pod)[0].pop("mountPath"),
    "mount path empty": lambda pod: _mounts(pod)[0].update(mountPath=""),
    "mount path twice": lambda pod: _mounts(pod)[1].update(mountPath="/data"),
    "mount path with colon": lambda pod: _mounts(pod)[0].update(mountPath="/a:b"),
    "mount path relative": lambda pod: _mounts(pod)[0].update(mountPath="data"),
    "subPath absolute": lambda pod: _mounts(pod)[0].update(subPath="/a"),
    "subPath with dots": lambda pod: _mounts(pod)[0].update(subPath="a/../b"),
    "subPath": lambda pod: _mounts(pod)[0].update(subPath="a/b"),
    "subPath and subPathExpr": lambda pod: _mounts(pod)[0].update(subPath="a", subPathExpr="$(X)"),
    "mountPropagation unknown": lambda pod: _mounts(pod)[0].update(mountPropagation="none"),
    "bidirectional mount": lambda pod: _mounts(pod)[0].update(mountPropagation="Bidirectional"),
    "mount twice at other paths": lambda pod: _mounts(pod)[1].update(name="data"),
    "env number": lambda pod: _env(pod)[0].update(value=1),
    "env boolean": lambda pod: _env(pod)[0].update(value=True),
    "env null": lambda pod: _env(pod)[0].update(value=None),
    "env list": lambda pod: _env(pod)[0].update(value=["a"]),
    "env without name": lambda pod: _env(pod)[0].pop("name"),
    "env name with dash": lambda pod: _env(pod)[0].update(name="A-B"),
    "env name with equals": lambda pod: _env(pod)[0].update(name="A=B"),
    "env name with blank": lambda pod: _env(pod)[0].update(name="A B"),
    "env name with digit": lambda pod: _env(pod)[0].update(name="1A"),
    "env name not ascii": lambda pod: _env(pod)[0].update(name="Ä"),
    "env name twice": lambda pod: _env(pod)[1].update(name="NCCL_DEBUG"),
    "env value and valueFrom": lambda pod: _env(pod)[1].update(value="x"),
    "env empty valueFrom": lambda pod: _env(pod)[1].update(valueFrom={}),
    "env two sources": lambda pod: _env(pod)[1]["valueFrom"].update(secretKeyRef={"name": "a", "key": "b"}),
    "env fieldPath unknown": lambda pod: _env(pod)[1]["valueFrom"]["fieldRef"].update(fieldPath="spec.foo"),
    "env fieldPath label": lambda pod: _env(pod)[1]["valueFrom"]["fieldRef"].update(fieldPath="metadata.labels['a']"),
    "env secret without key": lambda pod: _env(pod)[2]["valueFrom"]["secretKeyRef"].pop("key"),
    "env secret without name": lambda pod: _env(pod)[2]["valueFrom"]["secretKeyRef"].pop("name"),
    "env resourceFieldRef": lambda pod: _env(pod)[1].update(valueFrom={"resourceFieldRef": {"resource": "limits.cpu"}}),
    "env resourceFieldRef unknown": lambda pod: _env(pod)[1].update(
        valueFrom={"resourceFieldRef": {"resource": "limits.foo"}}
    ),
    "envFrom without source": lambda pod: pod["containers"][0]["envFrom"][0].pop("configMapRef"),
    "envFrom prefix": lambda pod: pod["containers"][0]["envFrom"][0].update(prefix="a b"),
    "port text": lambda pod: _ports(pod)[0].update(containerPort="29500"),
    "port zero": lambda pod: _ports(pod)[0].update(containerPort=0),
    "port too large": lambda pod: _ports(pod)[0].update(containerPort=65536),
    "port missing": lambda pod: _ports(pod)[1].pop("containerPort"),
    "port name twice": lambda pod: _ports(pod)[1].update(name="rdzv"),
    "port twice": lambda pod: _ports(pod)[1].update(containerPort=29500),
    "port name long": lambda pod: _ports(pod)[0].update(name="a-very-long-port-name"),
    "port name upper": lambda pod: _ports(pod)[0].update(name="Rdzv"),
    "port name digits": lambda pod: _ports(pod)[0].update(name="123"),
    "port protocol lower": lambda pod: _ports(pod)[0].update(protocol="tcp"),
    "hostPort": lambda pod: _ports(pod)[0].update(hostPort=29500),
    "hostPort differs": lambda pod: _ports(pod)[0].update(hostPort=29501),
    "hostPort twice": lambda pod: [port.update(hostPort=29500, containerPort=29500) for port in _ports(pod)],
    "command as text": lambda pod: pod["containers"][0].update(command="python train.py"),
    "command with number": lambda pod: pod["containers"][0].update(command=["sleep", 60]),
    "args with null": lambda pod: pod["containers"][0].update(args=["a", None]),
    "args with boolean": lambda pod: pod["containers"][0].update(args=["--amp", True]),
    "In without values": lambda pod: _node_row(pod).pop("values"),
    "In with empty values": lambda pod: _node_row(pod).update(values=[]),
    "Exists with values": lambda pod: _node_row(pod).update(operator="Exists"),
    "Exists": lambda pod: (_node_row(pod).update(operator="Exists"), _node_row(pod).pop("values")),
    "Gt with text": lambda pod: _node_row(pod).update(operator="Gt", values=["a"]),
    "Gt with two": lambda pod: _node_row(pod).update(operator="Gt", values=["1", "2"]),
    "Gt": lambda pod: _node_row(pod).update(operator="Gt", values=["1"]),
    "operator lower case": lambda pod: _node_row(pod).update(operator="in"),
    "values with number": lambda pod: _node_row(pod).update(values=[1]),
    "label value too long": lambda pod: _node_row(pod).update(values=["x" * 64]),
    "label value with blank": lambda pod: _node_row(pod).update(values=["a b"]),
    "label key bad": lambda pod: _node_row(pod).update(key="a b"),
    "label key two slashes": lambda pod: _node_row(pod).update(key="a/b/c"),
    "no terms": lambda pod: _required(pod).update(nodeSelectorTerms=[]),
    "empty term": lambda pod: _required(pod).update(nodeSelectorTerms=[{}]),
    "matchFields": lambda pod: _required(pod)["nodeSelectorTerms"][0].update(
        matchFields=[{"key": "metadata.name", "operator": "In", "values": ["n"]}]
    ),
    "matchFields other": lambda pod: _required(pod)["nodeSelectorTerms"][0].update(
        matchFields=[{"key": "metadata.uid", "operator": "In", "values": ["n"]}]
    ),
    "preferred weight 0": lambda pod: _preferred(pod).update(weight=0),
    "preferred weight 101": lambda pod: _preferred(pod).update(weight=101),
    "nodeSelector value number": lambda pod: pod["nodeSelector"].update(a=1),
    "nodeSelector value bad": lambda pod: pod["nodeSelector"].update(a="x y"),
    "nodeSelector key bad": lambda pod: pod["nodeSelector"].update({"a b": "x"}),
    "nodeSelector value boolean": lambda pod: pod["nodeSelector"].update(gpu=True),
    "toleration Exists with value": lambda pod: pod["tolerations"][0].update(value="x"),
    "toleration Equal without key": lambda pod: pod["tolerations"][1].pop("key"),
    "toleration Exists without key": lambda pod: pod["tolerations"][0].pop("key"),
    "toleration operator In": lambda pod: pod["tolerations"][1].update(operator="In"),
    "toleration operator Lt": lambda pod: pod["tolerations"][1].update(operator="Lt", value="5"),
    "toleration effect unknown": lambda pod: pod["tolerations"][0].update(effect="noSchedule"),
    "toleration effect empty": lambda pod: pod["tolerations"][0].update(effect=""),
    "toleration seconds without NoExecute": lambda pod: pod["tolerations"][2].update(effect="NoSchedule"),
    "toleration value bad": lambda pod: pod["tolerations"][1].update(value="a b"),
    "toleration key bad": lambda pod: pod["tolerations"][1].update(key="a b"),
    "toleration value number": lambda pod: pod["tolerations"][1].update(value=1),
    "pod affinity without topologyKey": lambda pod: _anti(pod).pop("topologyKey"),
    "pod affinity empty topologyKey": lambda pod: _anti(pod).update(topologyKey=""),
    "pod affinity key bad": lambda pod: _anti(pod).update(topologyKey="a b"),
    "pod affinity In without values": lambda pod: _anti_row(pod).update(operator="In"),
    "pod affinity Exists with values": lambda pod: _anti_row(pod).update(values=["a"]),
    "pod affinity operator Gt": lambda pod: _anti_row(pod).update(operator="Gt", values=["1"]),
    "pod affinity label bad": lambda pod: _anti(pod)["labelSelector"].update(matchLabels={"a": "b c"}),
    "pod affinity namespaces bad": lambda pod: _anti(pod).update(namespaces=["A_b"]),
    "spread maxSkew 0": lambda pod: _spread(pod).update(maxSkew=0),
    "spread no maxSkew": lambda pod: _spread(pod).pop("maxSkew"),
    "spread no whenUnsatisfiable": lambda pod: _spread(pod).pop("whenUnsatisfiable"),
    "spread whenUnsatisfiable bad": lambda pod: _spread(pod).update(whenUnsatisfiable="Never"),
    "spread twice": lambda pod: pod["topologySpreadConstraints"].append(dict(_spread(pod))),
    "spread minDomains 0": lambda pod: _spread(pod).update(minDomains=0),
    "spread minDomains anyway": lambda pod: _spread(pod).update(minDomains=2, whenUnsatisfiable="ScheduleAnyway"),
    "spread matchLabelKeys": lambda pod: _spread(pod).update(matchLabelKeys=["pod-template-hash"]),
    "spread matchLabelKeys twice": lambda pod: _spread(pod).update(matchLabelKeys=["app"]),
    "probe without handler": lambda pod: pod["containers"][0]["readinessProbe"].pop("httpGet"),
    "probe two handlers": lambda pod: pod["containers"][0]["readinessProbe"].update(tcpSocket={"port": 1}),
    "probe port 0": lambda pod: pod["containers"][0]["readinessProbe"]["httpGet"].update(port=0),
    "probe port name": lambda pod: pod["containers"][0]["readinessProbe"]["httpGet"].update(port="rdzv"),
    "probe port bad name": lambda pod: pod["containers"][0]["readinessProbe"]["httpGet"].update(port="a_b"),
    "probe period negative": lambda pod: pod["containers"][0]["readinessProbe"].update(periodSeconds=-1),
    "liveness successThreshold 2": lambda pod: pod["containers"][0]["livenessProbe"].update(successThreshold=2),
    "exec without command": lambda pod: pod["containers"][0]["livenessProbe"].update(exec={"command": []}),
    "lifecycle without handler": lambda pod: pod["containers"][0].update(lifecycle={"preStop": {}}),
    "init with probe": lambda pod: pod["initContainers"][0].update(readinessProbe={"exec": {"command": ["true"]}}),
    "init with lifecycle": lambda pod: pod["initContainers"][0].update(
        lifecycle={"postStart": {"exec": {"command": ["true"]}}}
    ),
    "sidecar": lambda pod: pod["initContainers"][0].update(restartPolicy="Always"),
    "init restartPolicy": lambda pod: pod["initContainers"][0].update(restartPolicy="Sometimes"),
    "grace period negative": lambda pod: pod.update(terminationGracePeriodSeconds=-1),
    "deadline 0": lambda pod: pod.update(activeDeadlineSeconds=0),
    "dnsPolicy": lambda pod: pod.update(dnsPolicy="clusterFirst"),
    "dnsPolicy None": lambda pod: pod.update(dnsPolicy="None"),
    "dnsPolicy None with config": lambda pod: pod.update(dnsPolicy="None", dnsConfig={"nameservers": ["1.2.3.4"]}),
    "hostAlias ip": lambda pod: pod["hostAliases"][0].update(ip="master"),
    "hostAlias hostname": lambda pod: pod["hostAliases"][0].update(hostnames=["a_b"]),
    "priority class unknown": lambda pod: pod.update(priorityClassName="nothing"),
    "priority given": lambda pod: pod.update(priority=5),
    "service account": lambda pod: pod.update(serviceAccountName="A_b"),
    "schedulerName long": lambda pod: pod.update(schedulerName="s" * 70),
    "schedulerName odd": lambda pod: pod.update(schedulerName="a b"),
    "hostname upper": lambda pod: pod.update(hostname="Master"),
    "subdomain bad": lambda pod: pod.update(subdomain="a_b"),
    "nodeName bad": lambda pod: pod.update(nodeName="a_b"),
    "gate twice": lambda pod: pod.update(schedulingGates=[{"name": "a"}, {"name": "a"}]),
    "gate bad": lambda pod: pod.update(schedulingGates=[{"name": "a b"}]),
    "gate and nodeName": lambda pod: pod.update(schedulingGates=[{"name": "a"}], nodeName="n"),
    "runAsUser negative": lambda pod: pod["containers"][0].update(securityContext={"runAsUser": -1}),
    "privilege contradicts": lambda pod: pod["containers"][0].update(
        securityContext={"privileged": True, "allowPrivilegeEscalation": False}
    ),
    "privileged": lambda pod: pod["containers"][0].update(securityContext={"privileged": True}),
    "hostPID and shared processes": lambda pod: pod.update(hostPID=True, shareProcessNamespace=True),
    "hostIPC": lambda pod: pod.update(hostIPC=True),
    "fsGroup negative": lambda pod: pod.update(securityContext={"fsGroup": -1}),
    "sysctl": lambda pod: pod.update(securityContext={"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]}),
    "sysctl bad": lambda pod: pod.update(securityContext={"sysctls": [{"name": "a b", "value": "1"}]}),
    "seccomp": lambda pod: pod.update(securityContext={"seccompProfile": {"type": "RuntimeDefault"}}),
    "seccomp localhost": lambda pod: pod.update(securityContext={"seccompProfile": {"type": "Localhost"}}),
    "overhead": lambda pod: pod.update(overhead={"cpu": "100m"}),
    "runtimeClass": lambda pod: pod.update(runtimeClassName="nvidia"),
    "termination message policy": lambda pod: pod["containers"][0].update(terminationMessagePolicy="file"),
    "preemption policy": lambda pod: pod.update(preemptionPolicy="never"),
    "image pull secret bare": lambda pod: pod.update(imagePullSecrets=["hub"]),
    "os": lambda pod: pod.update(os={"name": "linux"}),
    "os bad": lambda pod: pod.update(os={"name": "plan9"}),
    "readiness gate bad": lambda pod: pod.update(readinessGates=[{"conditionType": "a b"}]),
    "resourceClaims": lambda pod: pod.update(resourceClaims=[{"name": "gpu", "resourceClaimName": "x"}]),
    "resourceClaims without source": lambda pod: pod.update(resourceClaims=[{"name": "gpu"}]),
}


def _resources(pod: Object) -> Object:
    found: Object = pod["containers"][0]["resources"]
    return found


def _mounts(pod: Object) -> list[Object]:
    found: list[Object] = pod["containers"][0]["volumeMounts"]
    return found


def _env(pod: Object) -> list[Object]:
    found: list[Object] = pod["containers"][0]["env"]
    return found


def _ports(pod: Object) -> list[Object]:
    found: list[Object] = pod["containers"][0]["ports"]
    return found


def _required(pod: Object) -> Object:
    found: Object = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return found


def _node_row(pod: Object) -> Object:
    found: Object = _required(pod)["nodeSelectorTerms"][0]["matchExpressions"][0]
    return found


def _preferred(pod: Object) -> Object:
    found: Object = pod["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]
    return found


def _anti(pod: Object) -> Object:
    found: Object = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    return found


def _anti_row(pod: Object) -> Object:
    found: Object = _anti(pod)["labelSelector"]["matchExpressions"][0]
    return found


def _spread(pod: Object) -> Object:
    found: Object = pod["topologySpreadConstraints"][0]
    return found
