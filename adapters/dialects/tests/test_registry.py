import subprocess
import sys
from dataclasses import replace

from adapters.dialects import allocation_record, registry
from adapters.dialects.dialect import Defaults
from adapters.dialects.formats.hami_policies import DEVICE_CONFIG
from adapters.dialects.registry import dialects, documents
from adapters.dialects.tests import acme
from adapters.wire.kube import ConfigMap, Metadata
from core.requests.request import Request

ALL = dialects({}, Defaults())


def test_every_dialect_names_the_settings_that_it_reads() -> None:
    assert {name for name, _ in documents()} == {
        "volcano-vgpu-device-config",
        "volcano-scheduler-configmap",
        "koord-scheduler-config",
        "hami-scheduler-device",
    }


def test_hamis_settings_are_known_by_their_label_whatever_the_release_is_called() -> None:
    """HAMi v2.10 charts/hami/templates/scheduler/device-configmap.yaml:4-8."""
    labels = {"app.kubernetes.io/component": "hami-scheduler"}
    data = {"device-config.yaml": "nvidia: {}", "other": ""}
    labelled = ConfigMap(Metadata("gpu-hami-scheduler-device", labels=labels), data)

    assert registry.document_labels() == ("app.kubernetes.io/component=hami-scheduler",)
    assert registry.document_of(labelled, "device-config.yaml") == DEVICE_CONFIG
    assert registry.document_of(labelled, "other") is None
    plain = ConfigMap(Metadata("gpu-hami-scheduler-device"), data)
    assert registry.document_of(plain, "device-config.yaml") is None
    usual = ConfigMap(Metadata("hami-scheduler-device"), data)
    assert registry.document_of(usual, "device-config.yaml") == DEVICE_CONFIG


def test_every_entry_describes_its_configured_dialect() -> None:
    assert registry.names() == ("volcano", "koordinator", "metax", "hami", "nvidia")
    assert [(each.name, each.result_keys) for each in ALL] == [
        (info.name, info.result_keys) for info in registry.DIALECTS
    ]


def test_an_entry_imports_what_it_names() -> None:
    assert acme.INFO.load() is acme.Acme
    assert acme.INFO.load_writer() is None
    assert all(info.load_writer() is not None for info in registry.DIALECTS)


def test_an_entry_is_found_by_its_name() -> None:
    assert [registry.named(info.name) for info in registry.DIALECTS] == [*registry.DIALECTS]
    assert registry.named("other") is None


def test_only_a_scheduler_may_write_an_annotation_that_marks_an_allocation() -> None:
    protected = frozenset((allocation_record.KEY,)).union(
        *(info.result_keys for info in registry.DIALECTS)
    )

    assert registry.allocation_annotations() == {
        "dragoman.dev/allocation",
        "volcano.sh/vgpu-ids-new",
        "scheduling.koordinator.sh/device-allocated",
        "hami.io/metax-sgpu-devices-allocated",
        "hami.io/metax-gpu-devices-allocated",
        "hami.io/vgpu-devices-allocated",
    }
    assert registry.allocation_annotations() <= protected


def test_each_dialect_is_drawn_in_its_own_style() -> None:
    for field in ("web_color", "terminal_color", "fill", "letter"):
        drawn = {getattr(info.style, field) for info in registry.DIALECTS}
        assert len(drawn) == len(registry.DIALECTS)


def test_the_registry_imports_no_implementation() -> None:
    program = "import sys, adapters.dialects.registry; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.split()

    packages = [f"adapters.dialects.{name}" for name in registry.names()]
    assert {f"{package}.keys" for package in packages} <= {*loaded}
    assert not {f"{package}.dialect" for package in packages} & {*loaded}
    assert not {"numpy", "pydantic", "kubernetes", "fractions"} & {*loaded}


def test_a_request_that_states_no_vendor_has_that_of_its_dialects_cards() -> None:
    request = Request("u", "default/p", "metax", (), vendor=None)

    assert registry.with_vendor(request).vendor == "metax"
    assert registry.with_vendor(replace(request, vendor="amd")).vendor == "amd"
    assert registry.with_vendor(replace(request, dialect="strange")).vendor is None
