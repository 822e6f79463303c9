"""Three kinds of verifiers accept our certificates."""

import ssl
from pathlib import Path

import pytest

from adapters.service.certificates.authority import (
    CertificateError,
    belong_together,
    facts,
    make_authority,
    sign,
)
from adapters.service.certificates.tests.clients import accepts

NOW = 1_800_000_000
NAMES = ("dragoman.dragoman-system.svc", "127.0.0.1")


def test_a_certificate_is_accepted_under_each_of_its_names_and_no_other() -> None:
    authority = make_authority(NOW, 1000)

    leaf = sign(authority, NAMES, NOW, 100)

    assert accepts(authority.certificate, leaf.certificate, NAMES[0], NOW)
    assert accepts(authority.certificate, leaf.certificate, NAMES[1], NOW)
    assert not accepts(authority.certificate, leaf.certificate, "other.svc", NOW)
    assert facts(leaf.certificate).names == tuple(sorted(NAMES))


def test_a_certificate_never_outlives_its_authority() -> None:
    authority = make_authority(NOW, 50)

    leaf = sign(authority, NAMES, NOW, 100)

    assert facts(leaf.certificate).ends == facts(authority.certificate).ends == NOW + 50


def test_one_authority_does_not_vouch_for_another() -> None:
    first, second = make_authority(NOW, 1000), make_authority(NOW, 1000)

    leaf = sign(first, NAMES, NOW, 100)

    assert not accepts(second.certificate, leaf.certificate, NAMES[0], NOW)
    assert belong_together(leaf, first.certificate)
    assert not belong_together(leaf, second.certificate)


def test_openssl_reads_the_pair_and_shows_no_key(tmp_path: Path) -> None:
    leaf = sign(make_authority(NOW, 1000), NAMES, NOW, 100)
    (tmp_path / "crt").write_text(leaf.certificate)
    (tmp_path / "key").write_text(leaf.key)

    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tmp_path / "crt", tmp_path / "key")

    assert "PRIVATE" not in repr(leaf)


@pytest.mark.parametrize("text", ["", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_an_invalid_certificate_is_rejected(text: str) -> None:
    with pytest.raises(CertificateError):
        facts(text)
