"""Manifests with one share, and a way to translate them."""

import json
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner, Result

from adapters.cli.main import app

SHARE = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 1024, "volcano.sh/vgpu-cores": 10}
HAMI = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1024, "nvidia.com/gpucores": 10}
KOORDINATOR = {"koordinator.sh/gpu-core": 10, "koordinator.sh/gpu-memory": "1Gi"}


def run(*words: str | Path, text: str = "") -> Result:
    return CliRunner().invoke(app, ["translate", *map(str, words)], input=text)


def spec(limits: dict[str, Any], section: str = "limits") -> dict[str, Any]:
    return {"containers": [{"name": "c", "resources": {section: dict(limits)}}]}


def pod(limits: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", **metadata},
        "spec": spec(limits),
    }


def translated(plain: object, target: str = "hami") -> Any:
    result = run("--to", target, "--card-vendor", "nvidia", text=yaml.safe_dump(plain))
    assert result.exit_code == 0, result.stderr
    return yaml.safe_load(result.stdout)


def report(*words: str, text: str) -> list[dict[str, str]]:
    result = run(*words, "-o", "json", text=text)
    assert result.exit_code in (0, 1), result.stderr
    return [loss for each in json.loads(result.stdout)["pods"] for loss in each["losses"]]


def template(limits: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"labels": {"a": "b"}}, "spec": spec(limits)}


def at(path: str, limits: dict[str, Any], kind: str) -> dict[str, Any]:
    found: Any = template(limits)
    for step in reversed(path.split(".")):
        found = {step.removesuffix("[]"): [found] if step.endswith("[]") else found}
    return {"kind": kind, "metadata": {"name": "n"}, **found}
