"""A kubeconfig is read as kubectl reads it, or refused with the reason."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from e2e.harness.cluster.certificates import Authority
from e2e.harness.cluster.credentials import CredentialsError, connect, entry


def kubeconfig(folder: Path, user: dict[str, Any], **cluster: Any) -> Path:
    given = {"server": "https://example.invalid:6443/base/", **cluster}
    content = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "other", "cluster": {}}, {"name": "c", "cluster": given}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content))
    return path


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def test_certificates_in_the_file_itself_and_beside_it(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path / "certificates")
    pair = authority.user("me")
    inside = {
        "client-certificate-data": encoded(pair.certificate),
        "client-key-data": encoded(pair.key),
    }
    beside = {
        "client-certificate": f"certificates/{pair.certificate.name}",
        "client-key": f"certificates/{pair.key.name}",
    }

    for user in (inside, beside):
        authorities = {"certificate-authority-data": encoded(authority.pair.certificate)}
        api = connect(kubeconfig(tmp_path, user, **authorities))

        assert (api.host, api.port, api.root) == ("example.invalid", 6443, "/base")
        assert len(api.context.get_ca_certs()) == 1
        assert api.headers == {}


@pytest.mark.parametrize("user", [{"token": "secret"}, {"tokenFile": "token"}])
def test_a_token_is_sent_as_bearer_and_never_shown(tmp_path: Path, user: dict[str, str]) -> None:
    (tmp_path / "token").write_text("secret\n")

    api = connect(kubeconfig(tmp_path, user))

    assert api.headers == {"Authorization": "Bearer secret"}
    assert "secret" not in repr(api)


def test_a_user_with_neither_certificate_nor_token_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="the user has neither certificate nor token"):
        connect(kubeconfig(tmp_path, {"username": "me"}))


def test_a_name_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("current-context: gone\n")

    with pytest.raises(CredentialsError, match="name gone in"):
        connect(path)


def test_components_get_the_same_user_with_files_by_their_whole_paths(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path / "certificates")
    pair = authority.user("me")
    certificate = {
        "client-certificate": f"certificates/{pair.certificate.name}",
        "client-key-data": encoded(pair.key),
    }
    authorities = {"certificate-authority-data": encoded(authority.pair.certificate)}
    private = tmp_path / "private"
    private.mkdir()

    with_certificate = entry(kubeconfig(tmp_path, certificate, **authorities), private)
    with_token = entry(kubeconfig(tmp_path, {"token": "secret"}), private)

    assert with_certificate.cluster["server"] == "https://example.invalid:6443/base"
    authority_file = Path(with_certificate.cluster["certificate-authority"])
    assert authority_file.read_bytes() == authority.pair.certificate.read_bytes()
    assert with_certificate.user["client-certificate"] == str(pair.certificate)
    assert Path(with_certificate.user["client-key"]).read_bytes() == pair.key.read_bytes()
    assert with_token.user == {"tokenFile": str(private / "token")}
    assert (private / "token").read_text() == "secret"
