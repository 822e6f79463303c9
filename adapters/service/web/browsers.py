"""Requests that pages of other sites send from a person's browser; no other client is affected.

A browser states the page that sends a request in ``Origin`` or ``Sec-Fetch-Site``, for every
method but GET and HEAD and whatever the content type is, and no page can change that (Fetch
Standard, "Append a request Origin header"; Fetch Metadata Request Headers). Our own page only
reads. Schedulers, the API server, Prometheus and curl send neither field.

Reading is not stopped by that where a name of the page's own site is made to point to this
machine (DNS rebinding): the browser then takes the service for that site, and only ``Host``
differs. Such a page reaches what the person reaches, above all a service or a forwarded port on
the person's machine.
"""

import ipaddress
from collections.abc import Collection

READING = frozenset({"GET", "HEAD"})

OF_BROWSERS = frozenset({b"origin", b"sec-fetch-site"})
"""Header fields that only browsers send, where the method is not one of ``READING``."""

PRIVATE = (".localhost", ".svc", ".local", ".internal", ".test")
"""Ends of names that no public name server resolves. Sources: RFC 6761, RFC 6762, ICANN resolution
2024.07.29.06; ``svc`` is Kubernetes' and no top-level domain."""


def is_from_a_page(method: str, names: Collection[bytes]) -> bool:
    """Whether a page in a browser sends something, instead of reading.

    Args:
        method: of the request.
        names: of its header fields, in lower case.
    """
    return method not in READING and not OF_BROWSERS.isdisjoint(names)


def is_loopback(address: object) -> bool:
    """Whether a request came to an address that only this machine reaches."""
    try:
        return ipaddress.ip_address(str(address)).is_loopback
    except ValueError:
        return False


def is_foreign(host: str, known: Collection[str]) -> bool:
    """Whether a page of any site could have this host, so that its name may be a rebound one.

    Args:
        host: the value of Host; empty for a client that sends none, which is no browser.
        known: names by which people reach the service, in lower case.
    """
    name = _name(host)
    if not name or "." not in name or name in known or name.endswith(PRIVATE):
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return True
    return False


def _name(host: str) -> str:
    """The host without its port, in lower case."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower().rstrip(".")
