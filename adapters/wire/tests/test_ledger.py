from hypothesis import given

from adapters.wire.ledger import decode, encode
from core.ledger import NodeLedger
from core.tests.strategies import ledgers


@given(ledgers(pods=8))
def test_the_record_of_a_ledger_gives_it_back(ledger: NodeLedger) -> None:
    again = decode(encode(ledger))

    assert again == ledger
