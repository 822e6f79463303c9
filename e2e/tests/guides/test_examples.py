"""Every example is what the API server takes: a server-side dry run of ``configs/examples``."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from e2e.harness.cluster.api import Api, ApiError, Object
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.cluster.namespaces import namespace
from e2e.harness.cluster.target import Target
from e2e.harness.names import DEVICES
from e2e.harness.processes.run import REPOSITORY
from e2e.harness.schedulers.gang_workloads import JOB_SETS, WORKER_SETS
from e2e.harness.schedulers.gangs import PLUGINS_DEFINITION, PLUGINS_GROUPS
from e2e.harness.schedulers.schedulers import define
from e2e.harness.schedulers.volcano import GROUPS
from e2e.testbed import cache

# Whose PodGroup the API server has with a gate alone: test_gangs.py has such a server.
GATED = "gang-kubernetes.yaml"
FOLDER = REPOSITORY / "configs" / "examples"
EXAMPLES = sorted(
    [
        *(file for file in FOLDER.glob("*.yaml") if file.name != GATED),
        *(FOLDER / "recipes" / f"{name}.yaml" for name in ("jobset", "vllm")),
    ]
)
# Collection of each kind, and whether its objects live in a namespace.
KINDS = {
    "Node": ("nodes", False),
    "Pod": ("pods", True),
    "Deployment": ("deployments", True),
    "Job": ("jobs", True),
    "ConfigMap": ("configmaps", True),
    "ResourceSlice": ("resourceslices", False),
    "ResourceClaim": ("resourceclaims", True),
    "Device": ("devices", False),
    "ShareQuota": ("sharequotas", True),
    "PodGroup": ("podgroups", True),
    "JobSet": ("jobsets", True),
    "LeaderWorkerSet": ("leaderworkersets", True),
    "MutatingAdmissionPolicy": ("mutatingadmissionpolicies", False),
    "MutatingAdmissionPolicyBinding": ("mutatingadmissionpolicybindings", False),
}


def documents(file: Path) -> list[Object]:
    """The objects in a file; those of a List one by one."""
    found: list[Object] = []
    for document in yaml.safe_load_all(file.read_text()):
        if document:
            found += document["items"] if document["kind"] == "List" else [document]
    return found


@pytest.fixture(scope="module")
def api(target: Target) -> Iterator[Api]:
    """A server that knows the kinds of the examples, and has their namespaces.

    Other tests of the shared server need one that does not know NodeLedgers.
    """
    if isinstance(target, ControlPlane):
        for component in ("koordinator", "volcano", "jobset", "lws"):
            define(target, cache.asset(component, "crd"))
        define(target, PLUGINS_DEFINITION)
        define(target, REPOSITORY / "configs" / "crd" / "sharequotas.yaml")
    try:
        for collection in (DEVICES, GROUPS, PLUGINS_GROUPS, JOB_SETS, WORKER_SETS):
            target.api.get(collection)
    except ApiError:
        pytest.skip("a definition of Koordinator, Volcano or another project is not there")
    wanted = {
        document["metadata"].get("namespace", "default")
        for file in EXAMPLES
        for document in documents(file)
    }
    there = {row["metadata"]["name"] for row in target.api.get("/api/v1/namespaces")["items"]}
    with ExitStack() as stack:
        for name in sorted(wanted - there):
            stack.enter_context(namespace(target.api, name))
        yield target.api


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_document_is_accepted(api: Api, file: Path) -> None:
    found = documents(file)
    for document in found:
        version = document["apiVersion"]
        group = f"/apis/{version}" if "/" in version else f"/api/{version}"
        collection, is_in_namespace = KINDS[document["kind"]]
        metadata = document["metadata"]
        home = f"/namespaces/{metadata.get('namespace', 'default')}" if is_in_namespace else ""
        path = f"{group}{home}/{collection}/{metadata['name']}"
        query = "dryRun=All&fieldManager=dragoman-e2e&force=true&fieldValidation=Strict"

        kept = api.call("PATCH", f"{path}?{query}", document, "application/apply-patch+yaml")

        assert kept["metadata"]["name"] == metadata["name"]
        assert kept["metadata"].get("annotations", {}) == metadata.get("annotations", {})
    print(file.name, json.dumps([document["kind"] for document in found]))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 10
