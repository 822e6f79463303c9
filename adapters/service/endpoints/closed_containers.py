"""Closes the containers that request a share: they see no card until the node agent opens one."""

from collections.abc import Mapping, Sequence

from adapters.dialects import allocation_record
from adapters.dialects.dialect import ByContainer
from adapters.wire import admission
from adapters.wire.admission import Patch

VOID_DEVICES = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
"""Makes NVIDIA's runtime inject no card; only the node agent replaces the value.
Source: NVIDIA/nvidia-container-toolkit internal/config/image/devices.go."""

SHARE_MARK = {"name": allocation_record.MARK, "value": "1"}
"""Shows the node agent that a container must not start before it has its share."""


def close_containers(raw: bytes, sharers: frozenset[str], more: ByContainer) -> Patch:
    """Let containers start without any card, and mark them.

    Args:
        raw: the pod, as JSON.
        sharers: names of the containers that request a share.
        more: further variables of these containers.
    """
    spec = admission.read_environments(raw).spec
    patch: Patch = []
    for field, containers in (
        ("initContainers", spec.init_containers or ()),
        ("containers", spec.containers),
    ):
        for index, container in enumerate(containers):
            if container.name in sharers:
                own = more.get(container.name, {})
                wanted = (
                    VOID_DEVICES,
                    SHARE_MARK,
                    *({"name": name, "value": value} for name, value in own.items()),
                )
                patch += _set_variables(f"/spec/{field}/{index}/env", container.env, wanted)
    return patch


def _set_variables(
    path: str, env: list[admission.Variable] | None, wanted: Sequence[Mapping[str, str]]
) -> Patch:
    """Set variables, each wherever it is defined."""
    if env is None:
        return [{"op": "add", "path": path, "value": list(wanted)}]
    patch: Patch = []
    for variable in wanted:
        defined = [at for at, one in enumerate(env) if one.name == variable["name"]]
        patch += [{"op": "replace", "path": f"{path}/{at}", "value": variable} for at in defined]
        if not defined:
            patch.append({"op": "add", "path": f"{path}/-", "value": variable})
    return patch
