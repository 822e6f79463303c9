"""Ports on loopback that are free."""

import socket
from contextlib import ExitStack


def free_ports(count: int) -> tuple[int, ...]:
    """That many different free ports. Another program may still take one: then a start fails."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return tuple(each.getsockname()[1] for each in sockets)
