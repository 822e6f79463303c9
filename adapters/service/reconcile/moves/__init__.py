"""Carries out plans of moves, but for the evictions, which the mover makes (``adapters.mover``)."""
