"""The kubelet's calls: prepare claims before the containers of a pod, remove them after.

Source: k8s.io/kubelet v0.37.1 pkg/apis/dra/v1 and v1beta1, which differ only in the share ID.
"""

from collections.abc import Callable, Sequence
from typing import Any

import grpc.aio
from google.protobuf.message import Message

from adapters.agent.log import log_event
from adapters.dra_driver.preparation import ClaimRef, Preparer
from adapters.dra_driver.prepared import PreparedDevice
from adapters.dra_driver.proto import (
    dra_v1_pb2,
    dra_v1_pb2_grpc,
    dra_v1beta1_pb2,
    dra_v1beta1_pb2_grpc,
)
from core.requests.limits import GrantError

VERSIONS = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
"""Services of the interface, as the kubelet names them; it uses the first that it knows."""


class DraPlugin:
    """Answers the calls of one version."""

    def __init__(self, preparer: Preparer, messages: Any) -> None:
        """Answer nothing yet.

        Args:
            preparer: prepares and unprepares claims.
            messages: the generated module of the version.
        """
        self._preparer = preparer
        self._messages = messages

    async def NodePrepareResources(  # noqa: N802  # the name of the call
        self, request: Any, _context: object
    ) -> Message:
        """Prepare each claim; every claim of the request has an entry in the answer."""
        answer = self._messages.NodePrepareResourcesResponse()
        for claim in request.claims:
            entry = answer.claims[claim.uid]
            entry.SetInParent()
            try:
                found = await self._preparer.prepare(_ref(claim))
            except (GrantError, OSError) as error:
                entry.error = _failed("claim.not_prepared", claim, error)
                continue
            for each in found:
                entry.devices.append(self._device(each))
            log_event("claim.prepared", claim=_name(claim), uid=claim.uid, devices=len(found))
        return answer  # type: ignore[no-any-return]  # generated

    async def NodeUnprepareResources(  # noqa: N802  # the name of the call
        self, request: Any, _context: object
    ) -> Message:
        """Remove each claim; every claim of the request has an entry in the answer."""
        answer = self._messages.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            entry = answer.claims[claim.uid]
            entry.SetInParent()
            try:
                await self._preparer.unprepare(_ref(claim))
            except (GrantError, OSError) as error:
                entry.error = _failed("claim.not_removed", claim, error)
            else:
                log_event("claim.removed", claim=_name(claim), uid=claim.uid)
        return answer  # type: ignore[no-any-return]  # generated

    def _device(self, device: PreparedDevice) -> Any:
        found = self._messages.Device(
            request_names=[device.request],
            pool_name=device.pool,
            device_name=device.device,
            cdi_device_ids=list(device.cdi),
        )
        if device.share is not None and "share_id" in found.DESCRIPTOR.fields_by_name:
            found.share_id = device.share
        return found


def add_plugin(server: grpc.aio.Server, preparer: Preparer) -> None:
    """Serve both versions."""
    modules: Sequence[tuple[Callable[..., Any], Any]] = (
        (dra_v1_pb2_grpc.add_DRAPluginServicer_to_server, dra_v1_pb2),
        (dra_v1beta1_pb2_grpc.add_DRAPluginServicer_to_server, dra_v1beta1_pb2),
    )
    for add, messages in modules:
        add(DraPlugin(preparer, messages), server)


def _ref(claim: Any) -> ClaimRef:
    return ClaimRef(claim.namespace, claim.name, claim.uid)


def _name(claim: Any) -> str:
    return f"{claim.namespace}/{claim.name}"


def _failed(event: str, claim: Any, error: Exception) -> str:
    """Log a failure; the text for the kubelet, which makes it the pod's Event."""
    reason = f"dragoman: {str(error) or type(error).__name__}"
    log_event(event, claim=_name(claim), uid=claim.uid, reason=reason)
    return reason
