"""The recipes of operators: Argo CD renders and applies the chart, Prometheus computes costs."""

import re
from itertools import product
from pathlib import Path

import pytest
import yaml

from e2e.harness.cluster import chart
from e2e.harness.cluster.api import Object
from e2e.harness.cluster.chart import CHART
from e2e.harness.cluster.control_plane import ControlPlane
from e2e.harness.doubles.webhook import CONFIGURATIONS
from e2e.harness.names import NAMESPACE
from e2e.harness.processes.run import REPOSITORY
from e2e.tests.chart.test_monitoring import promtool

pytestmark = pytest.mark.local

RECIPES = REPOSITORY / "configs" / "examples" / "recipes"
EVERYTHING = Path(__file__).parent / "golden" / "everything.values.yaml"
CLUSTERS = ("--kube-version=1.30.0", "--kube-version=1.37.1")
UNSTEADY = re.compile(
    r"\b(lookup|rand\w+|gen[A-Z]\w+|uuidv4|now|Capabilities|Is(Install|Upgrade)|Revision)\b"
)
"""What a template knows of the cluster, the time or the release, or makes up."""


def application() -> Object:
    """The recipe's Application."""
    found: Object = yaml.safe_load((RECIPES / "argocd.yaml").read_text())["spec"]
    return found


def rendered(*flags: str | Path) -> list[Object]:
    source = application()["source"]
    text = chart.helm(
        "template",
        source["helm"]["releaseName"],
        REPOSITORY / source["path"],
        f"--namespace={application()['destination']['namespace']}",
        *flags,
    )
    return [each for each in yaml.safe_load_all(text) if each]


def hooks(objects: list[Object]) -> list[str]:
    notes = (each["metadata"].get("annotations") or {} for each in objects)
    return [each["helm.sh/hook"] for each in notes if "helm.sh/hook" in each]


def test_every_rendering_is_the_same() -> None:
    values = ("--values", EVERYTHING)
    first = rendered(*values, CLUSTERS[0], "--skip-tests")

    for cluster, other in product(CLUSTERS, ("--skip-tests", "--skip-tests --is-upgrade")):
        assert rendered(*values, cluster, *other.split()) == first


def test_no_template_asks_the_cluster_or_makes_anything_up() -> None:
    found = {
        file.name: UNSTEADY.findall(action)
        for file in (CHART / "templates").rglob("*")
        if file.suffix in {".yaml", ".tpl"}
        for action in re.findall(r"\{\{.*?\}\}", file.read_text(), re.DOTALL)
        if UNSTEADY.search(re.sub(r"/\*.*?\*/", "", action, flags=re.DOTALL))
    }

    assert found == {}


def test_its_only_hook_is_a_test_which_argo_cd_leaves_out() -> None:
    assert hooks(rendered("--values", EVERYTHING, CLUSTERS[0])) == ["test"]
    assert hooks(rendered("--values", EVERYTHING, CLUSTERS[0], "--skip-tests")) == []


def test_a_sync_keeps_what_the_service_wrote(plane: ControlPlane, tmp_path: Path) -> None:
    """The certificate in the Secret, and the authority of the webhooks."""
    authority, secret = "eA==", f"/api/v1/namespaces/{NAMESPACE}/secrets/dragoman-tls"
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(application()["source"]["helm"]["valuesObject"]))
    objects = rendered("--values", file, CLUSTERS[1], "--skip-tests")
    chart.apply(plane, objects)
    plane.api.merge(secret, {"data": {"tls.crt": authority}})
    configuration = plane.api.get(f"{CONFIGURATIONS}/dragoman")
    for hook in configuration["webhooks"]:
        hook["clientConfig"]["caBundle"] = authority
    plane.api.replace(f"{CONFIGURATIONS}/dragoman", configuration)

    chart.apply(plane, objects)

    kept = plane.api.get(f"{CONFIGURATIONS}/dragoman")["webhooks"]
    assert {hook["clientConfig"]["caBundle"] for hook in kept} == {authority}
    assert plane.api.get(secret)["data"]["tls.crt"] == authority


def test_namespaces_pay_for_their_part_of_each_card(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(
        yaml.safe_dump(yaml.safe_load((RECIPES / "cost.yaml").read_text())["spec"])
    )
    (tmp_path / "cases.yaml").write_text(Path(__file__).with_name("cost.test.yaml").read_text())

    promtool("check", "rules", "--lint=all", "--lint-fatal", "rules.yaml", folder=tmp_path)
    promtool("test", "rules", "cases.yaml", folder=tmp_path)
