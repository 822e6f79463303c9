"""Which repairs make a node's ledger and its pods agree, from values. No I/O.

The service carries them out; `dragoman audit` names what they would be.
"""
