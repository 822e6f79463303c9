"""Volcano, by its own chart and the commands of docs/reference/schedulers/vc-scheduler.md."""

from pathlib import Path

from e2e.kind import cards
from e2e.kind.documentation import blocks
from e2e.kind.pods import create, delete, environment, granted, koordinator, pod, used, volcano
from e2e.kind.shell import eventually, get, sh, wait_for
from e2e.testbed import cache

PAGE = "docs/reference/schedulers/vc-scheduler.md"
# Its webhooks need an image with a shell and openssl; the images here have one program each.
SETTINGS = "--set basic.image_pull_policy=IfNotPresent --set custom.admission_enable=false"


def test_the_scheduler_of_volcanos_chart_runs_with_what_configure_prints(tmp_path: Path) -> None:
    chart = cache.asset("volcano", "chart")
    sh(f"helm install volcano {chart} -n volcano-system --create-namespace {SETTINGS} --wait")
    block = blocks(PAGE)[0]

    sh(f"cd {tmp_path}\n{block}")

    sh("kubectl -n volcano-system rollout status deployment volcano-scheduler --timeout=2m", 150)
    written = get("configmap volcano-scheduler-configmap", "--namespace=volcano-system")
    assert "http://dragoman." in str(written["data"])


def test_its_pods_share_a_card_with_kube_schedulers(workers: list[str]) -> None:
    node = workers[0]
    create(pod("whole", volcano(cards.MEMORY_MIB), node=node, scheduler="volcano"))
    wait_for("pod/whole", "--for=condition=Ready")
    create(
        pod("by-volcano", volcano(8000, cores=25), node=node, scheduler="volcano"),
        pod("by-kube", koordinator(50), node=node),
    )

    wait_for("pod/by-volcano pod/by-kube", "--for=condition=Ready")

    grants = granted(node)
    (shared,) = {grant["card"] for name in ("by-volcano", "by-kube") for grant in grants[name]}
    assert grants["whole"][0]["card"] != shared
    assert environment("by-volcano")["NVIDIA_VISIBLE_DEVICES"] == shared
    delete("whole", "by-volcano", "by-kube")
    eventually(30, lambda: used() == {})
