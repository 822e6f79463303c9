"""What the schedulers' own installers create: accounts, roles, settings and pods."""

import yaml

from e2e.harness.cluster import chart
from e2e.harness.cluster.api import Object
from e2e.harness.schedulers.ecosystem_webhooks import KOORDINATOR, VOLCANO
from e2e.testbed import cache

KOORD_ACCOUNT, VOLCANO_ACCOUNT = "koord-scheduler", "volcano-scheduler"


def volcano_scheduler() -> str:
    """Volcano's scheduler, as its chart has it; as text."""
    only = (f"--namespace={VOLCANO}", "--show-only=templates/scheduler.yaml")
    return chart.helm("template", "volcano", cache.asset("volcano", "chart"), *only)


def volcano_rights() -> list[Object]:
    """The account of Volcano's scheduler and what it may do."""
    rows = yaml.safe_load_all(volcano_scheduler())
    return [each for each in rows if each and each["kind"] in chart.RIGHTS]


def koord_rights() -> list[Object]:
    """The account of koord-scheduler and what it may do.

    Its kustomization gives account and namespace the names that they have in a cluster.
    Source: koordinator v1.8.0 config/default/kustomization.yaml.
    """
    folder = cache.asset("koordinator", "manifests") / "rbac"
    files = ("scheduler_role.yaml", "scheduler_role_binding.yaml")
    found: list[Object] = []
    for text in ((folder / file).read_text() for file in files):
        found += [each for each in yaml.safe_load_all(text) if each]
    for each in found:
        subjects = each.get("subjects", ())
        named = [*subjects, *([each["metadata"]] if each["kind"] == "ServiceAccount" else ())]
        for row in named:
            row |= {"name": KOORD_ACCOUNT, "namespace": KOORDINATOR}
    return found
