"""``dragoman demo``: the service, driven as schedulers drive it."""
