"""The typer signatures of the commands. Each imports its work when it is called.

So the version, help and completion cost only typer; ``tests/test_start.py`` has what each command
may import.
"""
