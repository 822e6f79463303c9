"""Where credentials come from, and how they stay fresh."""

import asyncio
import json
from pathlib import Path

import pytest
from kubernetes.config import incluster_config

from adapters.cluster.api import credentials
from adapters.cluster.api.client import KubeClient
from adapters.cluster.api.credentials import KubeconfigSource, KubeCredentials, load
from adapters.cluster.api.error import ClusterError
from adapters.cluster.tests.server import QUICK, Reply, Request, serving


def kubeconfig(folder: Path, server: str, user: dict[str, object]) -> Path:
    path = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(content))
    return path


def header(made: KubeCredentials) -> str | None:
    return asyncio.run(made.authorization())


def test_a_kubeconfig_with_a_token_gives_a_header(tmp_path: Path) -> None:
    made = load(KubeconfigSource(kubeconfig(tmp_path, "http://127.0.0.1:1/", {"token": "secret"})))

    assert made.server == "http://127.0.0.1:1"
    assert header(made) == "Bearer secret"
    assert "secret" not in repr(made)


def test_a_kubeconfig_without_a_token_gives_none(tmp_path: Path) -> None:
    made = load(KubeconfigSource(kubeconfig(tmp_path, "https://127.0.0.1:1", {})))

    assert header(made) is None
    assert made.context is not None
    assert made.context.check_hostname


HINT = "install it with:\n  gcloud components install"


def with_helper(folder: Path, server: str = "http://127.0.0.1:1", **plugin: object) -> Path:
    """A kubeconfig whose user has a credential helper."""
    helper = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": "Never",
        "installHint": HINT,
        **plugin,
    }
    return kubeconfig(folder, server, {"exec": helper})


OLD = "2026-01-01T00:00:00Z"


def answer_of(status: dict[str, str]) -> dict[str, object]:
    """What a credential helper prints."""
    version = "client.authentication.k8s.io/v1"
    return {"apiVersion": version, "kind": "ExecCredential", "status": status}


def test_a_credential_helper_is_run(tmp_path: Path) -> None:
    answer = json.dumps(answer_of({"token": "from-helper"}))
    made = load(KubeconfigSource(with_helper(tmp_path, command="/bin/echo", args=[answer])))

    assert header(made) == "Bearer from-helper"


def test_a_credential_helper_may_give_a_certificate(tmp_path: Path) -> None:
    answer = json.dumps(answer_of({"clientCertificateData": "no", "clientKeyData": "no"}))
    file = with_helper(tmp_path, "https://127.0.0.1:1", command="/bin/echo", args=[answer])

    with pytest.raises(ClusterError, match="a certificate cannot be read"):
        load(KubeconfigSource(file))


@pytest.mark.parametrize(
    ("command", "script", "problem"),
    [
        ("no-such-helper", "", "no-such-helper: No such file or directory"),
        (
            "/bin/sh",
            "echo please >&2; echo log in >&2; exit 3",
            "process returned 3. please log in",
        ),
        ("/bin/sh", "echo nothing", "failed to decode process output"),
        ("/bin/sh", "echo '{}'", "malformed response. missing key 'apiVersion'"),
        ("/bin/sh", f"echo '{json.dumps(answer_of({}))}'", "has neither a token nor a cert"),
    ],
)
def test_a_credential_helper_that_fails_is_an_error_of_one_line_with_its_hint(
    tmp_path: Path, command: str, script: str, problem: str
) -> None:
    """No request may be sent without the user's credentials: it would be one of an anonymous."""
    file = with_helper(tmp_path, command=command, args=["-c", script])

    with pytest.raises(ClusterError) as refusal:
        load(KubeconfigSource(file))

    assert problem in refusal.value.message
    assert refusal.value.message.endswith("; install it with: gcloud components install")
    assert len(refusal.value.message.splitlines()) == 1


def test_a_credential_helper_that_fails_later_is_an_error_too(tmp_path: Path) -> None:
    """The first credentials have expired already."""
    count, answer = tmp_path / "count", answer_of({"token": "t", "expirationTimestamp": OLD})
    script = f"test ! -e {count} || exit 1; touch {count}; echo '{json.dumps(answer)}'"
    made = load(KubeconfigSource(with_helper(tmp_path, command="/bin/sh", args=["-c", script])))

    with pytest.raises(ClusterError, match="process returned 1"):
        header(made)


@pytest.mark.parametrize("content", ["", "[]", "{", "kind: Config", "\x00", '{"contexts": 3}'])
def test_an_invalid_kubeconfig_is_rejected_by_its_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "odd"
    path.write_text(content)

    with pytest.raises(ClusterError) as refusal:
        load(KubeconfigSource(path))

    assert str(path) in str(refusal.value)


def test_missing_credentials_are_an_error() -> None:
    with pytest.raises(ClusterError) as refusal:
        load(KubeconfigSource())

    assert "service account" in str(refusal.value)


def test_a_rotated_service_account_token_is_used_after_401(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first")
    authority.write_text("not used over plain HTTP")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    monkeypatch.setattr(credentials, "_context", lambda _configuration: None)
    made = load(KubeconfigSource())

    async def check(request: Request, reply: Reply) -> None:
        good = request.headers["authorization"] == f"bearer {token.read_text()}"
        await reply.answer(200 if good else 401, {})

    async def main() -> list[str]:
        async with serving(check) as server:
            made.server = server.server
            async with KubeClient(made, QUICK) as client:
                await client.get("/x")
                token.write_text("second")
                await client.get("/x")
            return [request.headers["authorization"] for request in server.requests]

    assert asyncio.run(main()) == ["bearer first", "bearer first", "bearer second"]
