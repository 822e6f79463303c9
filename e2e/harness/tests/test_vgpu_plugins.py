"""The doubles of device plugins answer and patch as the real ones did.

``allocate.json`` has records that Dragoman wrote, and for each call of a kubelet the answer of
HAMi's device plugin 2.10.0 (4707fb0) and of volcano-vgpu-device-plugin 4fb76ba, with the pod's
annotations after it, run on 28 November 2026 on stand-ins of the driver. ``UID`` stands for the
pod's uid and ``RANDOM`` for a uuid of the plugin.
"""

import json
import re
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from adapters.agent.injection.hami_core import COMPUTE, MEMORY, limit_env
from adapters.dialects.volcano.tests.builders import a_container, a_pod, volcano
from core.hardware.quantity import MIB
from core.requests.limits import CardLimit
from e2e.harness.cluster.api import Object
from e2e.harness.doubles.vgpu_plugins import (
    HAMI,
    LOCK,
    NODE,
    PHASE,
    TIME,
    TO_ALLOCATE,
    VOLCANO,
    HamiPlugin,
    PluginError,
    Response,
    VolcanoPlugin,
)

ANSWERS = Path(__file__).parents[2] / "captures" / "device-plugins" / "allocate.json"
OF_VOLCANO, OF_HAMI = json.loads(ANSWERS.read_text()).values()
INSTANCES = {
    "GPU-bbbbbbbb-1111-4111-8111-111111111111": ["MIG-00000000-0000-5000-8000-000000000000"]
}
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes/node"


@dataclass(slots=True)
class Objects:
    """Pods and a node, and the annotations that were patched, in order."""

    kept: dict[str, Object] = field(default_factory=lambda: {NODES: {"metadata": {}}})
    patched: list[str] = field(default_factory=list[str])

    def get(self, path: str) -> Object:
        if path == "/api/v1/pods":
            return {"items": [each for name, each in self.kept.items() if name != NODES]}
        return deepcopy(self.kept[path])

    def merge(self, path: str, body: Object) -> Object:
        for name, value in body["metadata"]["annotations"].items():
            self.patched.append(name)
            self.kept[path]["metadata"].setdefault("annotations", {})[name] = value
        return self.kept[path]

    def bind(self, case: dict[str, Any], prefix: str) -> str:
        """A pod with this record, which the node's lock names; its path."""
        number = len(self.kept)
        path = f"{PODS}/pod-{number}"
        texts = case.get("containers", ["main: all"])
        init, main = (
            [{"name": each.partition(":")[0]} for each in texts if ("init" in each) is of]
            for of in (True, False)
        )
        annotations = {
            TO_ALLOCATE[prefix]: case["record"],
            prefix + PHASE: "allocating",
            NODE: "node",
            TIME: str(number),
        }
        facts = {"name": f"pod-{number}", "namespace": "default", "uid": "UID"}
        self.kept[path] = {
            "metadata": {**facts, "annotations": annotations},
            "spec": {"initContainers": init, "containers": main},
        }
        self.merge(
            NODES,
            {"metadata": {"annotations": {LOCK: f"2026-11-28T11:45:53Z,default,pod-{number}"}}},
        )
        self.patched.clear()
        return path


def compared(response: Response) -> dict[str, Any]:
    random = re.compile(r"/[0-9a-f-]{36}\.cache")
    envs = {name: random.sub("/RANDOM.cache", value) for name, value in response.envs.items()}
    return {"envs": envs, "mounts": list(response.mounts)}


@pytest.mark.parametrize("case", OF_HAMI, ids=lambda case: case["record"])
def test_the_double_of_hamis_plugin_answers_as_it_did(case: dict[str, Any]) -> None:
    objects = Objects()
    path = objects.bind(case, HAMI)
    plugin = HamiPlugin(objects, "node")

    for call in case["calls"]:
        objects.patched.clear()
        response = plugin.allocate(call["devices"])

        assert compared(response) == call["response"]
        locked = call["after"].pop(LOCK) is not None
        assert (objects.get(NODES)["metadata"]["annotations"][LOCK] is not None) is locked
        assert objects.get(path)["metadata"]["annotations"].items() >= call["after"].items()
        last = [] if locked else [HAMI + PHASE, LOCK]
        assert objects.patched == [TO_ALLOCATE[HAMI], *last]


def test_the_double_of_volcanos_plugin_answers_as_it_did() -> None:
    refused = Objects()  # of the pod that no call is for
    for case in OF_VOLCANO:
        note = case.get("note", "")
        objects = refused if "error" in case["calls"][0] else Objects()
        path = objects.bind(case, VOLCANO)
        plugin = VolcanoPlugin(objects, "node", instances=INSTANCES if "mig" in note else {})
        for call in case["calls"]:
            if "error" in call:
                with pytest.raises(PluginError) as raised:
                    plugin.allocate(call["devices"])
                assert call["error"] == f"Unknown: {raised.value}"
            else:
                assert compared(plugin.allocate(call["devices"])) == call["response"]
            assert objects.get(path)["metadata"]["annotations"].items() >= call["after"].items()


def test_a_pod_without_a_record_that_can_be_used_fails() -> None:
    objects = Objects()
    path = objects.bind({"record": "GPU-0,NVIDIA,1000,0:;"}, HAMI)

    for count, why in ((2, "device number not matched"), (1, "no pod holds node")):
        with pytest.raises(PluginError, match=why):
            HamiPlugin(objects, "node").allocate(count)

    assert objects.get(path)["metadata"]["annotations"][HAMI + PHASE] == "failed"


@pytest.mark.parametrize("case", OF_VOLCANO, ids=lambda case: case["record"])
def test_the_product_warns_of_pods_that_volcanos_plugin_never_starts(case: dict[str, Any]) -> None:
    first = case["calls"][0]
    texts = case.get("containers", [f"main: {first['devices']} cards"])
    numbers = [re.search(r": (\d+) card", text) for text in texts]
    containers = [a_container(str(i), number=n and n[1]) for i, n in enumerate(numbers)]

    request = volcano().read_request(a_pod(*containers))

    warned = any("never starts" in text for text in request.notes)
    assert warned is (first.get("error") == "Unknown: cannot get valid pod")


@pytest.mark.parametrize(
    "envs",
    [
        call["response"]["envs"]
        for case in OF_VOLCANO + OF_HAMI
        for call in case["calls"]
        if call.get("response", {}).get("mounts")
    ],
    ids=lambda envs: str(len(envs)),
)
def test_the_agent_sets_the_limits_that_the_plugins_did(envs: dict[str, str]) -> None:
    memories = [text for name, text in envs.items() if name.startswith(f"{MEMORY}_")]
    compute = int(envs[COMPUTE])
    cards = [
        CardLimit(
            f"GPU-{index}",
            index,
            int(text.removesuffix("m")) * MIB,
            compute,
            memory_limited=True,
            compute_limited=compute > 0,
        )
        for index, text in enumerate(memories)
    ]

    ours = limit_env(cards)

    assert ours.items() >= {f"{MEMORY}_{i}": text for i, text in enumerate(memories)}.items()
    assert ours.get(COMPUTE, "0") == envs[COMPUTE]
