"""A public class name exists once in shipped code, so that a search for it finds one definition."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]


def shipped() -> list[Path]:
    """Modules that are installed, without tests and generated code."""
    return [
        path
        for package in ("dragoman", "core", "adapters")
        for path in sorted((ROOT / package).rglob("*.py"))
        if "tests" not in path.parts and "_pb2" not in path.name
    ]


def test_no_public_class_name_exists_twice() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in shipped():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")

    assert {name: found for name, found in places.items() if len(found) > 1} == {}
