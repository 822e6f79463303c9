"""Where decisions are recorded with all that they depend on, so that they can be replayed.

``advice.recorded`` and ``commit.recorded`` have the decisions.
"""

from typing import Protocol

from adapters.dialects.dialect import Defaults, Documents
from adapters.service.decide.state.ledger_cache import LedgerCache
from adapters.service.decide.state.quotas import Quotas


class RecordedDecision:
    """A decision and what it depends on beside the ledgers, the quotas and the policy."""

    __slots__ = ()


class Recorder(Protocol):
    """Records decisions. No method fails."""

    def follow(self, ledgers: LedgerCache, quotas: Quotas) -> None:
        """Read from now on what every decision depends on from these ledgers and quotas."""
        ...

    def configured(self, defaults: Defaults, documents: Documents) -> None:
        """Record the policy and the schedulers' own settings that apply from now on."""
        ...

    def record(self, decision: RecordedDecision) -> None:
        """Record a decision before anything changes on which it depends."""
        ...

    def close(self) -> None:
        """Record no further decision."""
        ...


class NoRecorder:
    """Records nothing; implements ``Recorder``."""

    def follow(self, ledgers: LedgerCache, quotas: Quotas) -> None:
        """Ignore them."""

    def configured(self, defaults: Defaults, documents: Documents) -> None:
        """Ignore them."""

    def record(self, decision: RecordedDecision) -> None:
        """Ignore it."""

    def close(self) -> None:
        """Do nothing: no file is open."""
