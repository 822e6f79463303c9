"""Whether a scheduler can reach the address at which it asks Dragoman."""

from urllib.parse import SplitResult, urlsplit

from adapters.cli.doctor.finding import CheckResult, error, warning
from adapters.cli.doctor.network_policies import Caller, closing
from adapters.cli.doctor.objects import KubeService, labels
from adapters.cli.doctor.observed import Observed
from adapters.cli.doctor.programs import ProgramPod

CHECK = "schedulers"

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def unreachable(seen: Observed, pod: ProgramPod, url: str) -> CheckResult | None:
    """What keeps a pod from an address, as far as objects show it; None for nothing."""
    address = urlsplit(url)
    host = address.hostname or ""
    if host in _LOOPBACK:
        return _sidecar(pod, url)
    if "services" in seen.unreadable:
        return None
    name, _, rest = host.partition(".")
    namespace, _, suffix = rest.partition(".")
    if suffix == "svc" or suffix.startswith("svc."):
        return _service_name(seen, pod, address, (namespace, name))
    found = [each for each in seen.services if each.spec.cluster_ip == host]
    if found:
        return _port(seen, pod, found[0], address)
    return warning(
        CHECK,
        f"{pod.name} asks {url}, which is no Service of this cluster and is not checked",
        "see that the address is the service's; after a new installation the cluster IP differs",
    )


def _sidecar(pod: ProgramPod, url: str) -> CheckResult | None:
    if pod.spec.host_network:
        return None  # whatever listens on the node
    if any(each.is_service for each in pod.spec.containers):
        return None
    return error(
        CHECK,
        f"{pod.name} asks {url}, and none of its containers is the service",
        "add the sidecar to its pod, or give the Service's address with --url",
    )


def _service_name(
    seen: Observed, pod: ProgramPod, address: SplitResult, key: tuple[str, str]
) -> CheckResult | None:
    matching = (
        each for each in seen.services if (each.metadata.namespace, each.metadata.name) == key
    )
    service = next(matching, None)
    if service is None:
        return error(
            CHECK,
            f"{pod.name} asks {address.netloc}, and there is no Service {'/'.join(key)}",
            "dragoman configure SCHEDULER --namespace NAMESPACE, or --url",
        )
    if pod.spec.host_network and pod.spec.dns_policy != "ClusterFirstWithHostNet":
        port = address.port or 80
        return error(
            CHECK,
            f"{pod.name} is on the host's network, whose DNS does not know {address.hostname}",
            f"--url {address.scheme}://{service.spec.cluster_ip}:{port}, or"
            " dnsPolicy: ClusterFirstWithHostNet",
        )
    return _port(seen, pod, service, address)


def _port(
    seen: Observed, pod: ProgramPod, service: KubeService, address: SplitResult
) -> CheckResult | None:
    port = address.port or (443 if address.scheme == "https" else 80)
    ports = [each.port for each in service.spec.ports or ()]
    if port in ports:
        return _admitted(seen, pod, service, port)
    name = f"{service.metadata.namespace}/{service.metadata.name}"
    return error(
        CHECK,
        f"the Service {name} has no port {port}, which a scheduler asks",
        f"--url with one of its ports: {', '.join(map(str, ports))}",
    )


def _admitted(
    seen: Observed, pod: ProgramPod, service: KubeService, port: int
) -> CheckResult | None:
    if "namespaces" in seen.unreadable:
        return None
    targets = [each.target_port for each in service.spec.ports or () if each.port == port]
    policies = closing(
        seen.network_policies,
        service.metadata.namespace,
        service.spec.selector or {},
        (port, *targets),
        _caller(seen, pod),
    )
    if not policies:
        return None
    return warning(
        CHECK,
        f"NetworkPolicies of {service.metadata.namespace} ({', '.join(policies)}) do not admit"
        f" {pod.name} at port {port}",
        "where the network's plugin enforces them, add its namespace to"
        " networkPolicy.schedulerNamespaces, or, for a pod on the host's network, its node's"
        " address to networkPolicy.extraClients (docs/reference/schedulers/kube-scheduler.md)",
    )


def _caller(seen: Observed, pod: ProgramPod) -> Caller:
    namespace, host = pod.metadata.namespace, pod.spec.host_network
    own = next((labels(each) for each in seen.namespaces if each.metadata.name == namespace), {})
    addresses = (pod.status.host_ip if host else pod.status.pod_ip,)
    return Caller(namespace, own, None if host else labels(pod), addresses)
