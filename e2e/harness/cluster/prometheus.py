"""A Prometheus that scrapes components of a test, as the chart's ServiceMonitors have it scrape."""

import http.client
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml

from e2e.harness.processes.ports import free_ports
from e2e.harness.processes.run import Run
from e2e.testbed import cache


@dataclass(frozen=True, slots=True)
class Target:
    """A component that is scraped.

    Attributes:
        job: of the scrape configuration.
        port: on this machine.
        labels: that the operator adds for its pod, such as the pod's name.
        path: of the metrics; the same for all of a job.
    """

    job: str
    port: int
    labels: tuple[tuple[str, str], ...]
    path: str = "/metrics"


@dataclass(frozen=True, slots=True)
class Prometheus:
    """One that runs."""

    port: int

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an expression now.

        Raises:
            ValueError: it cannot be evaluated.
        """
        found = self._get(f"/api/v1/query?{urlencode({'query': expression})}")
        if found["status"] != "success":
            raise ValueError(f"{expression}: {found}")
        samples: list[dict[str, Any]] = found["data"]["result"]
        return samples

    def rules(self) -> list[dict[str, Any]]:
        """All rules, with the health of their last evaluation."""
        groups = self._get("/api/v1/rules")["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def is_ready(self) -> bool:
        """Whether it serves queries."""
        return self._ask("/-/ready")[0] == http.client.OK

    def _get(self, path: str) -> Any:
        return json.loads(self._ask(path)[1])

    def _ask(self, path: str) -> tuple[int, bytes]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)) as port:
            port.request("GET", path)
            answer = port.getresponse()
            return answer.status, answer.read()


def start_prometheus(run: Run, targets: Sequence[Target], groups: object) -> Prometheus:
    """Start one; it scrapes and evaluates each second.

    Args:
        run: that ends it.
        targets: what it scrapes.
        groups: of rules.

    Raises:
        NotBuiltError: it is not built.
        StartError: it does not start.
    """
    folder = run.folder / "prometheus"
    folder.mkdir()
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    jobs: dict[str, list[object]] = {each.job: [] for each in targets}
    for each in targets:
        place = {"targets": [f"127.0.0.1:{each.port}"], "labels": dict(each.labels)}
        jobs[each.job].append(place)
    paths = {each.job: each.path for each in targets}
    configuration = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [
            {
                "job_name": job,
                "honor_labels": True,
                "metrics_path": paths[job],
                "static_configs": places,
            }
            for job, places in jobs.items()
        ],
    }
    file = folder / "prometheus.yaml"
    file.write_text(yaml.safe_dump(configuration))
    (port,) = free_ports(1)
    made = Prometheus(port)
    command: list[str | Path] = [
        cache.binary("prometheus", "prometheus"),
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    run.start("prometheus", command, ready=made.is_ready)
    return made
