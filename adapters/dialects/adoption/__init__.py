"""Adoption: the allocations of pods that another scheduler bound."""
