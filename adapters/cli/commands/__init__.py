"""The typer signatures of the commands. Each imports its work when it is called.

So the version, help and completion cost typer alone; ``tests/test_start.py`` has what each command
may import.
"""
