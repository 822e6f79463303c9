"""The typer signatures of the commands. Each imports its work when it is called."""
