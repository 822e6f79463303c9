"""``python -m dragoman``: the command."""

from dragoman.start import command

command()
