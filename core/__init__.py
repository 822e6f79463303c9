"""The allocation core: values in, values out. No I/O, no clock, no log, no word of Kubernetes.

Six values carry a decision. A ``Node`` has ``Card``s. A ``Request`` is what a pod asks for. ``fit``
compares it with a ``NodeLedger``, the node with all allocations, and gives a ``Placement`` or a
``Reason``. An ``Allocation`` is a placement with the pod that has it; reserved, then committed.

>>> from dataclasses import replace
>>> from core.feasibility.fit import fit
>>> from core.hardware.card import Card
>>> from core.hardware.node import Node
>>> from core.ledger.node_ledger import NodeLedger
>>> from core.requests.grant import Allocation, AllocationState
>>> from core.requests.request import ContainerRequest, Request
>>> GIB, VOLCANO = 1 << 30, frozenset({"volcano"})
>>> card = Card("GPU-0", "n1", 0, "nvidia", "A100", 40 * GIB, slots=4, dialects=VOLCANO)
>>> ledger = NodeLedger.of(Node("n1", (card,)))
>>> container = ContainerRequest("main", count=1, memory=30 * GIB)
>>> request = Request("uid-1", "ml/train", "volcano", (container,))
>>> placement = fit(request, ledger)
>>> allocation = replace(Allocation.of(request, placement), state=AllocationState.RESERVED)
>>> ledger = ledger.reserve(allocation).commit("uid-1")
>>> ledger.usages[0].memory // GIB, ledger.version
(30, 2)
>>> second = Request("uid-2", "ml/eval", "volcano", (container,))
>>> fit(second, ledger).text()
'1 of 1 cards: memory 20 GiB short'

Rooms, each of which imports only later ones: ``moves``, ``feasibility``, ``placement``, ``quota``,
``ledger``, ``requests``, ``hardware``.
"""
