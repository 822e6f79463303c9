"""Settings of Dynamic Resource Allocation."""

from typing import Annotated

from pydantic import Field, model_validator

from adapters.service.settings.section import SPLIT_AT_COMMAS, Section


class DraSettings(Section):
    """Dynamic Resource Allocation.

    Attributes:
        claims: whether cards that ResourceClaims have count as in use, and ResourceSlices describe
            cards.
        arbiter: whether each new allocation of a claim is committed to the ledger before the API
            server writes it, or rejected; needs ``claims``.
        shadows: whether shadow claims show schedulers what others have; needs ``claims``.
        deallocate_unused: drivers whose claims are deallocated if they keep devices that no pod
            uses; needs ``claims``.
        unused_seconds: how long a claim must be unused.
        conditions: whether claims of devices with our binding condition are committed after the
            API server has written them; needs ``claims``.
        convert: whether admission replaces the resources of pods by ResourceClaims, where these
            request exactly the same; needs ``claims``.
        convert_namespaces: whose pods are converted; ``*`` is all of them.
        convert_schedulers: those that allocate claims; pods of others are not converted.
    """

    claims: bool = False
    arbiter: bool = False
    shadows: bool = False
    deallocate_unused: Annotated[tuple[str, ...], SPLIT_AT_COMMAS] = ()
    unused_seconds: Annotated[int, Field(ge=1, le=86400)] = 60
    conditions: bool = False
    convert: bool = False
    convert_namespaces: Annotated[tuple[str, ...], SPLIT_AT_COMMAS] = ("*",)
    convert_schedulers: Annotated[tuple[str, ...], SPLIT_AT_COMMAS] = ("default-scheduler",)

    @model_validator(mode="after")
    def _others_read_claims(self) -> "DraSettings":
        """An arbiter that does not see claims would release them."""
        needing = {
            "arbiter": self.arbiter,
            "shadows": self.shadows,
            "conditions": self.conditions,
            "convert": self.convert,
            "deallocateUnused": self.deallocate_unused,
        }
        for name in (name for name, value in needing.items() if value and not self.claims):
            raise ValueError(f"dra.{name}: needs dra.claims: true")
        return self
