"""Which pods move where so that others fit: the fewest by weight, with a bound that is proven.

Values in, a plan out; nothing is moved. Every place is one that the one engine
(``core.feasibility.fit``) and the ledger allow.
"""
