"""Ledgers to store."""

from core.ledger.node_ledger import NodeLedger
from core.tests.builders import a_grant, empty, held, like_cards


def a_ledger(name: str = "n", pods: int = 0) -> NodeLedger:
    ledger = empty(*like_cards(2, slots=9), name=name)
    for number in range(pods):
        ledger = ledger.adopt(held(a_grant("c0"), uid=f"p{number}", node=name))
    return ledger
