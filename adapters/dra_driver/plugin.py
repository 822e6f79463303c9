"""The kubelet's calls: prepare claims before the containers of a pod, remove them after.

Source: k8s.io/kubelet v0.37.1 pkg/apis/dra/v1. The kubelet knows this version from 1.34 on, and the
driver needs 1.36, so v1beta1 is not served.
"""

from collections.abc import Callable
from typing import Any

import grpc.aio

from adapters.agent.log import log_event
from adapters.dra_driver.preparation import ClaimRef, Preparer
from adapters.dra_driver.prepared import PreparedDevice
from adapters.dra_driver.proto import dra_v1_pb2, dra_v1_pb2_grpc
from core.requests.limits import GrantError

VERSION = "v1.DRAPlugin"
"""Service of the interface, as the kubelet names it."""


class DraPlugin:
    """Answers the kubelet's calls."""

    def __init__(self, preparer: Preparer) -> None:
        """Let this preparer do what the kubelet asks for."""
        self._preparer = preparer

    async def NodePrepareResources(  # noqa: N802  # the name of the call
        self, request: Any, _context: object
    ) -> dra_v1_pb2.NodePrepareResourcesResponse:
        """Prepare each claim; every claim of the request has an entry in the answer."""
        answer = dra_v1_pb2.NodePrepareResourcesResponse()
        for claim in request.claims:
            entry = answer.claims[claim.uid]
            entry.SetInParent()
            try:
                found = await self._preparer.prepare(_ref(claim))
            except (GrantError, OSError) as error:
                entry.error = _failed("claim.not_prepared", claim, error)
                continue
            entry.devices.extend(map(_device, found))
            log_event("claim.prepared", claim=_name(claim), uid=claim.uid, devices=len(found))
        return answer

    async def NodeUnprepareResources(  # noqa: N802  # the name of the call
        self, request: Any, _context: object
    ) -> dra_v1_pb2.NodeUnprepareResourcesResponse:
        """Remove each claim; every claim of the request has an entry in the answer."""
        answer = dra_v1_pb2.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            entry = answer.claims[claim.uid]
            entry.SetInParent()
            try:
                await self._preparer.unprepare(_ref(claim))
            except (GrantError, OSError) as error:
                entry.error = _failed("claim.not_removed", claim, error)
            else:
                log_event("claim.removed", claim=_name(claim), uid=claim.uid)
        return answer


def add_plugin(server: grpc.aio.Server, preparer: Preparer) -> None:
    """Serve the kubelet's calls."""
    add: Callable[..., None] = dra_v1_pb2_grpc.add_DRAPluginServicer_to_server
    add(DraPlugin(preparer), server)


def _device(device: PreparedDevice) -> dra_v1_pb2.Device:
    return dra_v1_pb2.Device(
        request_names=[device.request],
        pool_name=device.pool,
        device_name=device.device,
        cdi_device_ids=list(device.cdi),
        share_id=device.share,
    )


def _ref(claim: Any) -> ClaimRef:
    return ClaimRef(claim.namespace, claim.name, claim.uid)


def _name(claim: Any) -> str:
    return f"{claim.namespace}/{claim.name}"


def _failed(event: str, claim: Any, error: Exception) -> str:
    """Log a failure; the text for the kubelet, which makes it the pod's Event."""
    reason = f"dragoman: {str(error) or type(error).__name__}"
    log_event(event, claim=_name(claim), uid=claim.uid, reason=reason)
    return reason
