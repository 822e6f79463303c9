"""Dynamic Resource Allocation: the cards that ResourceClaims of any driver have.

It is no dialect of pods: a pod names a claim, and a scheduler allocates devices to the claim. Here
slices become cards (``devices``) and allocated claims become holders
(``claims``, ``holders``).
"""

DRA = "dra"
"""The dialect of an allocation that a claim has; its uid and its name are the claim's."""
