"""Settings from a file and from the environment."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from adapters.service.settings import settings as settings_module
from adapters.service.settings.settings import Settings, SettingsError


def test_the_example_settings_are_valid(tmp_path: Path) -> None:
    found = settings_module.read(Path("configs/sidecar.yaml"), {})

    assert found.listen == "127.0.0.1:9595"
    assert found.policy.defaults().topology_aware is True
    assert settings_module.read(None, {}) == Settings()
    assert tmp_path.exists()


def test_the_default_limit_of_bodies_is_in_bytes() -> None:
    assert Settings().limits.body_bytes == 256 << 20


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("holdSeconds: 7\npolicy: {node: spread}\ntls:\n")
    environment = {
        "DRAGOMAN_HOLDSECONDS": "9",
        "DRAGOMAN_POLICY_NODE": "binpack",
        "DRAGOMAN_POLICY_TOPOLOGYAWARE": "true",
        "DRAGOMAN_LIMITS_BODYMIB": "512",
        "PATH": "/bin",
    }

    found = settings_module.read(file, environment)

    assert found.hold_seconds == 9
    assert found.limits.body_bytes == 512 << 20
    assert found.policy.node is not None
    assert (found.policy.node.value, found.policy.topology_aware) == ("binpack", True)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("listen: nowhere", "listen"),
        ("holdSeconds: 0", "holdSeconds"),
        ("policy: {node: fast}", "policy.node"),
        ("polcy: {}", "polcy"),
        ("tls: {certificate: a}", "tls.key"),
        (
            "tls: {certificate: a, managed: {secret: a, names: [b]}}",
            "leave certificate and key out",
        ),
        ("tls: {managed: {secret: a, names: [b]}}", "needs store: kubernetes"),
        ("web: {authorize: true}", "web.authorize: needs store: kubernetes"),
        ("tls: {managed: {secret: a, names: []}}", "tls.managed.names"),
        ("tls: {managed: {secret: a, names: [b], leafSeconds: 60}}", "6 times overlapSeconds"),
        ("tls: {managed: {secret: a, names: [b], authoritySeconds: 999}}", "2 times leafSeconds"),
        ("store: postgres", "store"),
        ("limits: {connections: 15}", "limits.connections"),
        ("limits: {headSeconds: 61}", "limits.headSeconds"),
        ("limits: {bodySeconds: 0}", "limits.bodySeconds"),
        ("limits: {responseSeconds: 601}", "limits.responseSeconds"),
        ("limits: {bodyMiB: 8}", "limits.bodyMiB"),
        ("requiredPlugin: two words", "requiredPlugin"),
        ("mirrors: [metax]", "mirrors.0: 'metax': input should be one of volcano, koordinator"),
        ("[1]", "mapping"),
        ("a: [", "YAML"),
    ],
)
def test_an_invalid_setting_is_named(tmp_path: Path, text: str, key: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(text)

    with pytest.raises(SettingsError, match=key):
        settings_module.read(file, {})


@pytest.mark.parametrize("name", ["DRAGOMAN_LISTN", "DRAGOMAN_POLICY", "DRAGOMAN_LISTEN_X"])
def test_a_variable_without_a_setting_is_rejected(name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        settings_module.read(None, {name: "x"})


def test_a_missing_file_is_reported() -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        settings_module.read(Path("/nowhere/x.yaml"), {})


EVERY = {
    "LISTEN": "127.0.0.1:1",
    "TLS_CERTIFICATE": "a",
    "TLS_KEY": "b",
    "TLS_LISTEN": "127.0.0.1:2",
    "TLS_CLIENTAUTHORITIES": "c",
    "GRPC": "127.0.0.1:3",
    "GRPCTLS_CERTIFICATE": "d",
    "GRPCTLS_KEY": "e",
    "GRPCTLS_CLIENTAUTHORITIES": "f",
    "STORE": "kubernetes",
    "WEB_AUTHORIZE": "true",
    "KUBECONFIG": "g",
    "NAMESPACE": "h",
    "SCHEDULERNAMESPACES": "kube-system,gpus",
    "HOLDSECONDS": "7",
    "HAMIDEVICECONFIG": "gpu-hami-scheduler-device",
    "PUBLISH": "volcano,metax",
    "MIRRORS": "volcano,koordinator",
    "NODELOCK": "never",
    "CONFIRMSTOP": "agents",
    "REQUIREDPLUGIN": "dragoman",
    "PEERMETRICS": "true",
    "CARDMETRICS": "always",
    "AGENTPORT": "9394",
    "HOSTS": "gpu.example.com,dragoman.example.com",
    "LIMITS_CONNECTIONS": "16",
    "LIMITS_HEADSECONDS": "1",
    "LIMITS_BODYSECONDS": "2",
    "LIMITS_RESPONSESECONDS": "3",
    "LIMITS_BODYMIB": "16",
    "POLICY_NODE": "spread",
    "POLICY_CARD": "binpack",
    "POLICY_TOPOLOGYAWARE": "false",
    "LOG_LEVEL": "debug",
    "DRA_CLAIMS": "true",
    "DRA_ARBITER": "true",
    "DRA_SHADOWS": "true",
    "PREEMPTION_ENABLED": "true",
    "MOVES_ENABLED": "true",
    "LOG_FORMAT": "text",
}


def leaves(section: Mapping[str, object], path: str = "") -> dict[str, object]:
    """Every setting, by the name of its variable."""
    found: dict[str, object] = {}
    for key, value in section.items():
        name = f"{path}_{key}" if path else key
        found |= leaves(value, name) if isinstance(value, Mapping) else {name.upper(): value}
    return found


def test_every_value_can_be_set_by_the_environment() -> None:
    made = settings_module.read(None, {f"DRAGOMAN_{name}": value for name, value in EVERY.items()})

    said = leaves(made.model_dump(mode="json", by_alias=True))
    plain = leaves(Settings().model_dump(mode="json", by_alias=True))
    assert said.keys() - {"TLS_MANAGED"} == EVERY.keys()
    assert all(said[name] != plain.get(name) for name in EVERY)


@pytest.mark.parametrize("name", ["arbiter", "shadows"])
def test_what_is_done_about_claims_needs_that_they_are_read(tmp_path: Path, name: str) -> None:
    file = tmp_path / "sidecar.yaml"
    file.write_text(f"dra: {{{name}: true}}")

    with pytest.raises(SettingsError, match=rf"dra\.{name}: needs dra\.claims: true"):
        settings_module.read(file)
    file.write_text(f"dra: {{claims: true, {name}: true}}")
    assert getattr(settings_module.read(file).dra, name)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "listen: 127.0.0.1:99999",
            "listen: '127.0.0.1:99999': must be HOST:PORT with a port up to 65535, such as"
            " 127.0.0.1:9595",
        ),
        ("store: postgres:x", "store: 'postgres:x': must be memory, sqlite:PATH or kubernetes"),
        ("grpc: 1x", "grpc: '1x': must be auto, off, unix:PATH or HOST:PORT"),
        ("log: {levle: info}", "unknown key log.levle; known: format, level"),
        (
            "tls: {sertificate: x}",
            "unknown key tls.sertificate; known: certificate, clientAuthorities, key, listen,"
            " managed",
        ),
    ],
)
def test_a_mistake_is_named_without_patterns(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "sidecar.yaml"
    file.write_text(text)

    with pytest.raises(SettingsError) as caught:
        settings_module.read(file, {})

    assert problem in str(caught.value)


@pytest.mark.parametrize("port", [0, 65535])
def test_every_port_is_accepted(port: int) -> None:
    assert (
        settings_module.read(None, {"DRAGOMAN_LISTEN": f"[::1]:{port}"}).listen == f"[::1]:{port}"
    )
