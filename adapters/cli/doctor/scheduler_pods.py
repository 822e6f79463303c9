"""Finds schedulers among the pods, and where each has its configuration."""

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from adapters.cli.configure.options import Scheduler
from adapters.cli.doctor.programs import ProgramContainer, ProgramPod

_FLAGS = {
    Scheduler.KUBE: "--config",
    Scheduler.KOORD: "--config",
    Scheduler.VOLCANO: "--scheduler-conf",
}
"""Source: kubernetes cmd/kube-scheduler/app/options/options.go, which koord-scheduler uses too;
volcano.sh/volcano cmd/scheduler/app/options/options.go."""


class ConfigMapKey(NamedTuple):
    """A key of a ConfigMap, in the pod's namespace."""

    config_map: str
    key: str


class SchedulerPod(NamedTuple):
    """A scheduler.

    Attributes:
        scheduler: its kind.
        pod: in which it runs.
        file: of its configuration, in its container; empty where it has none.
        source: of that file; None where it comes from no ConfigMap, or there is no file.
    """

    scheduler: Scheduler
    pod: ProgramPod
    file: str
    source: ConfigMapKey | None


def scheduler_pods(pods: Iterable[ProgramPod]) -> Iterator[SchedulerPod]:
    """The schedulers that run, in the order of the pods."""
    for pod in pods:
        for container in pod.spec.containers:
            scheduler = _scheduler(container)
            if scheduler is not None and pod.status.phase not in {"Succeeded", "Failed"}:
                file = _option(container.words, _FLAGS[scheduler])
                yield SchedulerPod(scheduler, pod, file, _source(pod, container, file))


def _scheduler(container: ProgramContainer) -> Scheduler | None:
    names = {container.image_name, *(PurePosixPath(word).name for word in container.words[:1])}
    return next((each for each in Scheduler if each.value in names), None)


def _option(words: list[str], flag: str) -> str:
    for at, word in enumerate(words):
        name, sign, value = word.partition("=")
        if name == flag and sign:
            return value
        if word == flag:
            return words[at + 1] if at + 1 < len(words) else ""
    return ""


def _source(pod: ProgramPod, container: ProgramContainer, file: str) -> ConfigMapKey | None:
    for mount in container.volume_mounts or ():
        try:
            below = PurePosixPath(file).relative_to(mount.mount_path)
        except ValueError:
            continue
        inside = mount.sub_path if mount.sub_path else str(below)
        for volume in pod.spec.volumes or ():
            if volume.name == mount.name and volume.config_map is not None:
                renamed = {each.path: each.key for each in volume.config_map.items or ()}
                return ConfigMapKey(volume.config_map.name, renamed.get(inside, inside))
    return None
