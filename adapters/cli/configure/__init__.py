"""``dragoman configure``: a scheduler's own configuration, with what Dragoman needs in it.

One file for each kind of scheduler; ``document`` finds the configuration in a file and writes it
back, ``record`` keeps what ``--undo`` needs.
"""
