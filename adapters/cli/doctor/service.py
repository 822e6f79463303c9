"""The service: whether it runs, is reached, and reads its settings files."""

from collections.abc import Iterator
from http import HTTPStatus

from adapters.cli.doctor.finding import CheckResult, error, ok, warning
from adapters.cli.doctor.observed import SERVICE, HttpAnswer, Observed
from adapters.dialects import registry
from adapters.service.settings.settings import Settings

_UNREACHED = "error trying to reach service"
"""Said by kube-apiserver where its proxy cannot connect to a Service's pods.

Source: kubernetes staging/src/k8s.io/apimachinery/pkg/util/proxy/transport.go."""


def check_service(seen: Observed) -> Iterator[CheckResult]:
    """Return the Deployment of each installation, and the answer of its ``/readyz``."""
    releases = seen.releases()
    if not releases and any(each.is_service for pod in seen.pods for each in pod.spec.containers):
        yield ok("service", "no Deployment, but sidecars of schedulers; doctor does not call these")
    elif not releases and "deployments" not in seen.unreadable:
        yield error(
            "service",
            f"no Deployment has the labels of the chart's component {SERVICE}",
            "helm install dragoman charts/dragoman, as docs/guides/install.md says",
        )
    for release in releases:
        own = (release.namespace, release.name)
        named = {(each.metadata.namespace, each.metadata.name): each for each in seen.deployments}
        ready, wanted = named[own].status.ready_replicas, named[own].spec.replicas
        text = f"{ready} of {wanted} replicas of {release} are ready"
        remedy = f"kubectl -n {release.namespace} describe pods, and the log of the service"
        runs = ready >= wanted > 0  # which the kubelets of its replicas ask
        if runs:
            yield ok("service", text)
        else:
            yield error("service", text, remedy) if ready == 0 else warning("service", text, remedy)
        status, text = seen.ready.get(str(release), HttpAnswer(0, "not asked"))
        text = " ".join(text.split())
        if status == HTTPStatus.OK:
            yield ok("service", f"the API server reaches {release}, which is ready")
        elif status == HTTPStatus.FORBIDDEN:
            yield warning(
                "service",
                f"whether {release} answers is not known: {text}",
                "run doctor as a user that may get services/proxy",
            )
        elif runs and (not status or _UNREACHED in text):
            yield warning(
                "service",
                f"the API server does not reach port http of {release}, which is ready: {text}",
                "where a kube-scheduler runs on the control plane's network, admit its nodes by"
                " networkPolicy.extraClients (docs/reference/schedulers/kube-scheduler.md)",
            )
        else:
            yield error(
                "service",
                f"/readyz of {release} through the API server: {status or 'no answer'} {text}",
                "see what it waits for; without an answer, check its pods, and that NetworkPolicies"
                " let the API server reach port http",
            )


def check_device_configuration(seen: Observed) -> Iterator[CheckResult]:
    """Find HAMi's device configuration that a service does not read: under another name or place.

    HAMi's chart names the ConfigMap after its release, ``RELEASE-scheduler-device`` or
    ``RELEASE-hami-scheduler-device``: HAMi v2.10 charts/hami/templates/_helpers.tpl,
    hami-vgpu.fullname and hami-vgpu.scheduler. The service may read ConfigMaps by their names
    alone, so it cannot look for the label that all of them have.
    """
    fields = Settings.model_fields
    for config in seen.labelled:
        name, namespace = config.metadata.name, config.metadata.namespace
        labels = {f"{key}={value}" for key, value in (config.metadata.labels or {}).items()}
        has_file = any(registry.document_of(config, key) is not None for key in config.data or {})
        if not has_file or labels.isdisjoint(registry.document_labels()):
            continue
        for release in seen.releases():
            namespaces = release.settings.get("schedulerNamespaces")
            if not isinstance(namespaces, list):
                namespaces = [*fields["scheduler_namespaces"].default]
            remedies: list[str] = []
            read = release.settings.get("hamiDeviceConfig", fields["hami_device_config"].default)
            if name != read:
                remedies.append(f"set service.settings.hamiDeviceConfig to {name}")
            if namespace not in namespaces:
                remedies.append(f"add {namespace} to service.settings.schedulerNamespaces")
            if remedies:
                yield error(
                    "settings",
                    f"{release} does not read ConfigMap {namespace}/{name}: the names of HAMi's"
                    " resources and their defaults are those of HAMi's chart",
                    " and ".join(remedies),
                )
