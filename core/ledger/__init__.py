"""Which pod has which share of which card, on one node. A change makes a new ledger."""
