"""The pins agree with each other."""

import re
from pathlib import Path

import pytest

from e2e.testbed import build, cache
from e2e.testbed.versions import Component, GoComponent, components, of_bench_alone, of_kind_alone


def half_fill(component: Component) -> None:
    with cache.filling(component, {}) as folder:
        (folder / "half").write_text("half")
        (folder / "half" / "more").write_text("fails")


GO = [part for part in components().values() if isinstance(part, GoComponent)]


@pytest.mark.parametrize("component", GO, ids=lambda part: part.name)
def test_go_mod_requires_the_version_that_versions_toml_names(component: GoComponent) -> None:
    text = (component.folder / "go.mod").read_text()

    assert re.search(rf"\s{re.escape(component.module)} {re.escape(component.version)}\b", text)


@pytest.mark.parametrize("component", GO, ids=lambda part: part.name)
def test_go_mod_names_every_command_as_a_tool(component: GoComponent) -> None:
    text = (component.folder / "go.mod").read_text()

    for package in component.commands.values():
        assert re.search(rf"^(tool |\t){re.escape(package)}$", text, re.MULTILINE)


@pytest.mark.parametrize("component", GO, ids=lambda part: part.name)
def test_go_sum_has_the_content_of_the_module(component: GoComponent) -> None:
    text = (component.folder / "go.sum").read_text()

    assert f"{component.module} {component.version} h1:" in text


def test_another_pin_is_another_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DRAGOMAN_TESTBED", str(tmp_path))
    places = {cache.place(part) for part in components().values()}

    assert len(places) == len(components())
    assert all(place.parent == tmp_path for place in places)


def test_only_components_that_there_are_wait_for_the_cluster_in_containers() -> None:
    assert of_kind_alone() < components().keys()


@pytest.mark.parametrize("kind", [False, True])
def test_no_suite_builds_what_only_benchmarks_need(kind: bool) -> None:
    assert of_bench_alone() < components().keys()
    assert of_bench_alone().isdisjoint(build.of_suite(kind=kind))


def test_what_only_a_benchmark_needs_is_built_by_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DRAGOMAN_TESTBED", str(tmp_path))

    with pytest.raises(cache.NotBuiltError, match=r"e2e\.testbed\.build descheduler"):
        cache.binary("descheduler", "descheduler")


def test_a_place_that_was_not_finished_is_not_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DRAGOMAN_TESTBED", str(tmp_path))
    component = components()["etcd"]

    with pytest.raises(NotADirectoryError):
        half_fill(component)

    assert not cache.is_built(component)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(cache.NotBuiltError, match="make testbed"):
        cache.binary("etcd", "etcd")
