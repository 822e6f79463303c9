"""Decodes text that others wrote, within limits; one unreadable part does not lose the rest."""
