"""Protocols of a node, as published: the messages and fields that the tests use. See make proto."""
