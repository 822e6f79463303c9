"""The real components, built or fetched once and kept in a cache outside the repository.

Standard library only: it must run before anything is installed.
"""
