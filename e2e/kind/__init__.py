"""A cluster in containers, with Dragoman installed as its documentation says: ``make e2e-kind``."""
