"""``dragoman demo``: calls the service as schedulers do."""
