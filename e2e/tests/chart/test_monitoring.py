"""Alerts and dashboards of the chart, as helm renders them and as promtool reads them."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness.cluster import chart
from e2e.harness.cluster.chart import CHART, ChartError
from e2e.harness.processes.run import REPOSITORY
from e2e.testbed import cache

pytestmark = pytest.mark.local

CASES = Path(__file__).with_name("alerts.test.yaml")
BOARDS = ("fleet", "node", "namespace")


def rendered(**monitoring: Any) -> dict[tuple[str, str], Any]:
    """All objects of the chart, by kind and name."""
    objects = chart.render({"monitoring": monitoring})
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def rules(**options: object) -> Any:
    return rendered(prometheusRule={"enabled": True, **options})["PrometheusRule", "dragoman"]


def promtool(*words: str | Path, folder: Path) -> str:
    tool = cache.binary("prometheus", "promtool")
    done = subprocess.run([tool, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def names(groups: Any) -> list[str]:
    return [rule["alert"] for group in groups for rule in group["rules"]]


def test_alerts_and_dashboards_are_rendered_as_they_are_and_only_if_enabled() -> None:
    found = rendered(prometheusRule={"enabled": True}, dashboard={"enabled": True})
    alerts = yaml.safe_load((REPOSITORY / "configs/prometheus-alerts.yaml").read_text())
    boards = found["ConfigMap", "dragoman-dashboard"]["data"]
    files = {f"dragoman-{name}.json": CHART / f"files/dashboards/{name}.json" for name in BOARDS}
    plain = rendered()

    assert found["PrometheusRule", "dragoman"]["spec"] == alerts["spec"]
    assert {name: text.strip() for name, text in boards.items()} == {
        name: file.read_text().strip() for name, file in files.items()
    }
    assert {("PrometheusRule", "dragoman"), ("ConfigMap", "dragoman-dashboard")} <= found.keys()
    assert not {("PrometheusRule", "dragoman"), ("ConfigMap", "dragoman-dashboard")} & plain.keys()
    assert not {kind for kind, _ in plain} & {"Ingress", "ServiceMonitor"}


def test_alerts_and_dashboards_can_be_left_out_by_name() -> None:
    every = names(rules()["spec"]["groups"])
    some = names(rules(disabled=["DragomanDrift", "DragomanNodeInactive"])["spec"]["groups"])
    none = rules(disabled=every)["spec"]["groups"]
    board = rendered(dashboard={"enabled": True, "boards": ["node"]})

    assert {*every} - {*some} == {"DragomanDrift", "DragomanNodeInactive"}
    assert not none
    assert [*board["ConfigMap", "dragoman-dashboard"]["data"]] == ["dragoman-node.json"]
    with pytest.raises(ChartError, match="boards"):
        rendered(dashboard={"enabled": True, "boards": ["pod"]})


def test_prometheus_reads_the_rendered_rules(tmp_path: Path) -> None:
    groups = rules()["spec"]["groups"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))

    said = promtool("check", "rules", "--lint=all", "--lint-fatal", "rules.yaml", folder=tmp_path)

    assert f"{len(names(groups))} rules found" in said


def test_each_alert_fires_when_it_should_and_not_in_a_healthy_cluster(tmp_path: Path) -> None:
    groups = rules()["spec"]["groups"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    (tmp_path / "cases.yaml").write_text(CASES.read_text())
    cases = [
        case for test in yaml.safe_load(CASES.read_text())["tests"]
        for case in test["alert_rule_test"]
    ]  # fmt: skip

    promtool("test", "rules", "cases.yaml", folder=tmp_path)

    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == {*names(groups)}
    assert {case["alertname"] for case in cases if not case.get("exp_alerts")} == {*names(groups)}
