"""``dragoman configure``: a scheduler's own configuration, with what Dragoman needs in it."""
