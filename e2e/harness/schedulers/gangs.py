"""Gangs of each stock scheduler: the cluster that knows them, the schedulers, and their pods."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from e2e.harness.cluster.api import Api
from e2e.harness.cluster.bulk import create_all
from e2e.harness.cluster.control_plane import ControlPlane, start_control_plane
from e2e.harness.cluster.ready_cluster import PODS, pod
from e2e.harness.processes.flags import Flags
from e2e.harness.processes.run import Run
from e2e.harness.schedulers.full_stack import KOORD, KUBE, VOLCANO
from e2e.harness.schedulers.native import GANG, GROUP
from e2e.harness.schedulers.schedulers import define, start_kube_scheduler
from e2e.harness.schedulers.service import Service, kube_like
from e2e.harness.schedulers.volcano import add_group

GATE = "GenericWorkload=true"
RESIZE_GATE = "InPlacePodVerticalScalingSchedulerPreemption=true"
POD_GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"

PLUGINS = "scheduling.x-k8s.io/pod-group"
PLUGINS_GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"

# Source: sigs.k8s.io/scheduler-plugins 0.33.5 config/crd/bases, without a change.
PLUGINS_DEFINITION = Path(__file__).with_name("scheduler_plugins_podgroups.yaml")

Share = dict[str, str]
"""Limits of a pod."""

_NUMBERS = count()


def start_gang_plane(run: Run) -> ControlPlane:
    """Start a control plane that serves the PodGroups of Kubernetes and of scheduler-plugins.

    Raises:
        NotBuiltError: a binary is missing.
        StartError: a component does not start.
    """
    gates = f"{GATE},{RESIZE_GATE}"
    flags: Flags = {"feature-gates": gates, "runtime-config": "scheduling.k8s.io/v1beta1=true"}
    plane = start_control_plane(run, flags)
    define(plane, PLUGINS_DEFINITION)
    return plane


def add_plugins_group(api: Api, name: str, size: int) -> None:
    """Add a group of scheduler-plugins; pods name it by the label ``PLUGINS``."""
    made = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": size},
    }
    api.create(PLUGINS_GROUPS, made)


def gang_scheduler(service: Service) -> Callable[[], None]:
    """A function that starts kube-scheduler with its gangs, as configured for a service."""
    configuration = kube_like(service, "kube-scheduler-config.yaml", KUBE)
    return partial(start_kube_scheduler, service.plane, configuration, gates=GATE)


def by_kubernetes(service: Service, size: int, *shares: Share) -> list[str]:
    """A gang of kube-scheduler's own; the names of its pods.

    Args:
        service: whose cluster it is.
        size: pods that are bound together.
        shares: of each pod.
    """
    name = f"group-{next(_NUMBERS)}"
    policy = {"gang": {"minCount": size}}
    service.plane.api.create(
        POD_GROUPS, {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy}}
    )
    return _add(service, KUBE, name, shares, schedulingGroup={"podGroupName": name})


def by_koordinator(service: Service, size: int, *shares: Share) -> list[str]:
    """A gang of koord-scheduler; arguments as of ``by_kubernetes``."""
    name = f"gang-{next(_NUMBERS)}"
    texts = {f"{GANG}/name": name, f"{GANG}/min-available": str(size)}
    return _add(service, KOORD, name, shares, texts)


def by_volcano(service: Service, size: int, *shares: Share) -> list[str]:
    """A gang of vc-scheduler; arguments as of ``by_kubernetes``."""
    name = f"task-{next(_NUMBERS)}"
    add_group(service.plane.api, name, size)
    return _add(service, VOLCANO, name, shares, {GROUP: name})


def _add(
    service: Service,
    scheduler: str,
    gang: str,
    shares: Sequence[Share],
    texts: dict[str, str] | None = None,
    **spec: Any,
) -> list[str]:
    names = [f"{gang}-{number}" for number in range(len(shares))]
    pods = [pod(name, scheduler, share, **spec) for name, share in zip(names, shares, strict=True)]
    for made in pods if texts else ():
        made["metadata"]["annotations"] = texts
    create_all(service.plane.api, PODS, pods)
    return names
