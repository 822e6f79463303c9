"""The NodeLedger as the API server has it."""

import msgspec

from adapters.wire.kube import Metadata, Wire


class LedgerObject(Wire, frozen=True, gc=False):
    """A NodeLedger with record and status still encoded."""

    metadata: Metadata
    spec: msgspec.Raw
    status: msgspec.Raw = msgspec.Raw()
