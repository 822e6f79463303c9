"""Which question is answered by whom."""

from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files

import msgspec
import orjson

from adapters.dialects import registry
from adapters.dialects.dialect import DialectError
from adapters.sidecar.decide.service import Service, UnknownPod
from adapters.sidecar.endpoints.admission import Admission
from adapters.sidecar.endpoints.kube_extender import KubeExtender
from adapters.sidecar.endpoints.volcano_extender import VolcanoExtender
from adapters.sidecar.web import views
from adapters.sidecar.web.app import JSON, MIB, Answer, Call, Route, pod_named, problem
from adapters.wire import body
from adapters.wire.kube import Pod, full_name
from core.requests.decision import Decision

Flow = Callable[[bytes], Awaitable[bytes]]
Routes = dict[tuple[str, str], Route]

TEXT = "text/plain; version=0.0.4; charset=utf-8"
PAGE = "text/html; charset=utf-8"

_POD = msgspec.json.Decoder(Pod)


def schedulers(service: Service, required_plugin: str = "") -> Routes:
    """What schedulers and the API server ask.

    Args:
        service: that decides.
        required_plugin: as ``AdmissionFlow`` takes it.
    """
    kube, volcano = KubeExtender(service), VolcanoExtender(service)
    admission = Admission(service, required_plugin)
    return {
        # A body with 5,000 whole nodes has 64 MiB.
        ("POST", "/extender/filter"): _flow(kube.filter, "filter", 256),
        ("POST", "/extender/prioritize"): _flow(kube.prioritize, "prioritize", 256),
        ("POST", "/extender/preempt"): _flow(kube.preempt, "preempt", 256),
        ("POST", "/extender/bind"): _flow(kube.bind, "bind", 1),
        ("POST", "/volcano/predicate"): _flow(volcano.predicate, "predicate", 64),
        # All nodes that passed, each with all its pods.
        ("POST", "/volcano/prioritize"): _flow(volcano.prioritize, "prioritize", 1024),
        ("POST", "/volcano/allocate"): _flow(volcano.allocate, "allocate", 8),
        ("POST", "/volcano/deallocate"): _flow(volcano.deallocate, "deallocate", 8),
        ("POST", "/volcano/preemptable"): _flow(volcano.preemptable, "preemptable", 256),
        ("POST", "/volcano/reclaimable"): _flow(volcano.reclaimable, "reclaimable", 256),
        ("POST", "/admission/pods"): _flow(admission.pods, "admit", 8),
        ("POST", "/admission/bindings"): _flow(admission.bindings, "binding", 8),
    }


def people(
    service: Service,
    metrics: Callable[[], Awaitable[bytes]],
    decisions: Callable[[], list[Mapping[str, object]]],
) -> Routes:
    """What people, probes and Prometheus ask.

    Args:
        service: whose book is shown.
        metrics: all metrics as text.
        decisions: the latest ones, newest first.
    """
    book = service.ledgers

    async def exposition(_: Call) -> Answer:
        return Answer(await metrics(), kind=TEXT)

    async def live(_: Call) -> Answer:
        return Answer(b"ok\n", kind="text/plain")

    async def ready(_: Call) -> Answer:
        missing = ", ".join(sorted(service.missing))
        if missing:
            return Answer(f"not known yet: {missing}\n".encode(), 503, "text/plain")
        return Answer(b"ok\n", kind="text/plain")

    async def explain(call: Call) -> Answer:
        return await _explain(service, call)

    dashboard = _page()

    async def page(_: Call) -> Answer:
        return Answer(dashboard, kind=PAGE)

    return {
        ("GET", "/metrics"): Route(exposition),
        ("GET", "/livez"): Route(live),
        ("GET", "/readyz"): Route(ready),
        ("GET", "/api/nodes"): Route(_view(lambda _: views.nodes(book))),
        ("GET", "/api/cards"): Route(_view(lambda call: _cards(service, call))),
        ("GET", "/api/pods"): Route(_view(lambda _: views.pods(book))),
        ("GET", "/api/decisions"): Route(_view(lambda _: decisions())),
        ("GET", "/api/explain"): Route(explain),
        ("POST", "/api/explain"): Route(explain),
        ("GET", "/"): Route(page),
    }


def _flow(flow: Flow, verb: str, most: int) -> Route:
    async def answer(call: Call) -> Answer:
        return Answer(await flow(call.body), kind=JSON)

    return Route(answer, verb, most * MIB)


def _view(view: Callable[[Call], object]) -> Callable[[Call], Awaitable[Answer]]:
    async def answer(call: Call) -> Answer:
        return Answer(orjson.dumps(view(call)))

    return answer


def _cards(service: Service, call: Call) -> list[views.View]:
    first = call.query.get("first", "")
    return views.cards(
        service.ledgers, call.query.get("node"), int(first) if first.isdecimal() else None
    )


async def _explain(service: Service, call: Call) -> Answer:
    """Where a pod fits, and why not elsewhere; nothing is given away.

    The pod stands in the body, or is a known one: ``?pod=NAMESPACE/NAME``.
    """
    service.check_ready()
    try:
        if call.body:
            pod = body.read(call.body, _POD)
        else:
            named = pod_named(call.query.get("pod", ""), call.query.get("uid", ""))
            pod = await service.find(named)
        asking = service.pod_requests.read(pod)
    except (DialectError, UnknownPod) as error:
        return problem(404 if isinstance(error, UnknownPod) else 422, str(error))
    if asking is None:
        return Answer(orjson.dumps({"pod": full_name(pod), "dialect": None}))
    names = service.ledgers.inventory.names()
    survey = service.evaluate(asking)
    fitting = [name for name in names if survey.fits(name)]
    refused = survey.rejections([name for name in names if name not in set(fitting)])
    placement = survey.best()
    decision = Decision(placement, {name: one.reason for name, one in refused.items()})
    told = {
        "pod": full_name(pod),
        "dialect": asking.dialect.name,
        "summary": decision.summary(),
        "best": placement.node if placement else None,
        "fits": fitting,
        "nodes": {
            **{name: one.reason.text() for name, one in refused.items()},
            **service.ledgers.problems(),
        },
        "preemptionMayHelp": sorted(name for name, one in refused.items() if not one.unresolvable),
        "notes": list(asking.request.notes),
    }
    return Answer(orjson.dumps(told))


_PAGE = files("adapters.sidecar.web").joinpath("page.html").read_bytes()

_COLORS = b"{/* the service inserts the dialects and their colors */}"
"""Where the page takes the colors of the dialects by their names."""


def _page() -> bytes:
    """The dashboard, with the dialects of the registry."""
    colors = {info.name: info.style.web_color for info in registry.DIALECTS}
    return _PAGE.replace(_COLORS, orjson.dumps(colors))
