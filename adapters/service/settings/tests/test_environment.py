"""Settings from the environment, next to what the kubelet puts there."""

from pathlib import Path

import pytest

from adapters.service.settings.sections import GrpcTls
from adapters.service.settings.settings import Log, Settings, SettingsError, is_service_link, read

SERVICE = {
    "DRAGOMAN_SERVICE_HOST": "10.96.0.7",
    "DRAGOMAN_SERVICE_PORT": "9595",
    "DRAGOMAN_SERVICE_PORT_HTTP": "9595",
    "DRAGOMAN_SERVICE_PORT_HTTPS": "443",
    "DRAGOMAN_PORT": "tcp://10.96.0.7:9595",
    "DRAGOMAN_PORT_9595_TCP": "tcp://10.96.0.7:9595",
    "DRAGOMAN_PORT_9595_TCP_PROTO": "tcp",
    "DRAGOMAN_PORT_9595_TCP_PORT": "9595",
    "DRAGOMAN_PORT_9595_TCP_ADDR": "10.96.0.7",
    "DRAGOMAN_PORT_443_TCP": "tcp://10.96.0.7:443",
    "DRAGOMAN_PORT_443_TCP_PROTO": "tcp",
    "DRAGOMAN_PORT_443_TCP_PORT": "443",
    "DRAGOMAN_PORT_443_TCP_ADDR": "10.96.0.7",
}
"""For the chart's Service ``dragoman``, with its ports ``http`` and ``https``."""

WEBHOOK = {
    "DRAGOMAN_WEBHOOK_SERVICE_HOST": "fd00:10:96::7",
    "DRAGOMAN_WEBHOOK_SERVICE_PORT": "443",
    "DRAGOMAN_WEBHOOK_PORT": "tcp://[fd00:10:96::7]:443",
    "DRAGOMAN_WEBHOOK_PORT_443_TCP": "tcp://[fd00:10:96::7]:443",
    "DRAGOMAN_WEBHOOK_PORT_443_TCP_PROTO": "tcp",
    "DRAGOMAN_WEBHOOK_PORT_443_TCP_PORT": "443",
    "DRAGOMAN_WEBHOOK_PORT_443_TCP_ADDR": "fd00:10:96::7",
}
"""For a Service ``dragoman-webhook`` with an IPv6 address and one port without a name."""


@pytest.mark.parametrize("links", [SERVICE, WEBHOOK, SERVICE | WEBHOOK])
def test_service_links_of_the_kubelet_are_no_settings(links: dict[str, str]) -> None:
    assert read(None, links) == Settings()
    assert read(None, {**links, "DRAGOMAN_HOLDSECONDS": "9"}).hold_seconds == 9


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DRAGOMAN_PORT", "9595"),
        ("DRAGOMAN_PORT", "http://10.96.0.7:9595"),
        ("DRAGOMAN_SERVICE_HOST", "example.org"),
        ("DRAGOMAN_SERVICE_PORT", "http"),
        ("DRAGOMAN_SERVICE_PORT_", "9595"),
        ("DRAGOMAN_PORT_9595_ICMP", "icmp://10.96.0.7:9595"),
        ("DRAGOMAN_PORT_9595_TCP_PROTO", "quic"),
        ("DRAGOMAN_PORT_9595_TCP_PORT", ""),
        ("DRAGOMAN_PORT_9595_TCP_ADDR", "10.96.0"),
        ("DRAGOMAN_LISTEN_PORT", "9595"),
    ],
)
def test_a_variable_with_another_form_than_a_service_link_is_rejected(
    name: str, value: str
) -> None:
    assert not is_service_link(name, value)
    with pytest.raises(SettingsError, match=f"{name}: there is no such setting; there is DRAGOMAN"):
        read(None, {**SERVICE, name: value})


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("DRAGOMAN_LISTN", "there is no such setting; there is DRAGOMAN_LISTEN"),
        ("DRAGOMAN_HOLD_SECONDS", "there is no such setting; there is DRAGOMAN_HOLDSECONDS"),
        ("DRAGOMAN_LISTEN_X", "there is no such setting; there is DRAGOMAN_LISTEN"),
        ("DRAGOMAN_QQ", "there is no such setting; there is DRAGOMAN_GRPC, .*DRAGOMAN_STORE"),
        (
            "DRAGOMAN_LOG",
            "is a section of the settings; set one of its values: "
            "DRAGOMAN_LOG_FORMAT, DRAGOMAN_LOG_LEVEL",
        ),
    ],
)
def test_a_misspelled_variable_is_rejected_with_the_names_that_are_like_it(
    name: str, remedy: str
) -> None:
    with pytest.raises(SettingsError, match=f"^{name}: {remedy}"):
        read(None, {name: "x"})


def test_an_invalid_value_of_a_variable_is_rejected_by_its_key_and_value() -> None:
    with pytest.raises(SettingsError, match=r"^policy\.topologyAware: 'maybe': input should be"):
        read(None, {"DRAGOMAN_POLICY_TOPOLOGYAWARE": "maybe"})


def test_a_list_in_a_variable_is_separated_by_commas() -> None:
    environment = {
        "DRAGOMAN_STORE": "kubernetes",
        "DRAGOMAN_TLS_MANAGED_SECRET": "tls",
        "DRAGOMAN_TLS_MANAGED_NAMES": "dragoman.svc, 10.96.0.7",
    }

    tls = read(None, environment).tls

    assert tls is not None
    assert tls.managed is not None
    assert tls.managed.names == ("dragoman.svc", "10.96.0.7")


def test_a_variable_changes_one_key_of_a_section_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(
        "grpc: 0.0.0.0:9596\ngrpcTls: {certificate: a, key: b, clientAuthorities: c}\nlog:\n"
    )
    environment = {"DRAGOMAN_GRPCTLS_key": "d", "DRAGOMAN_LOG_FORMAT": "text", "HOME": "/"}

    settings = read(file, environment)

    assert settings.grpc_tls == GrpcTls(
        certificate=Path("a"), key=Path("d"), client_authorities=Path("c")
    )
    assert settings.log == Log(format="text")


def test_settings_made_in_code_do_not_read_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_HOLDSECONDS", "9")

    assert Settings().hold_seconds == 30
    assert read(None).hold_seconds == 9
