"""A certificate authority for one run, and certificates for servers and users.

Made by the openssl command, which every machine that runs these tests has; a Python library for
it would be one more dependency for four calls.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

# -x509 with -CA signs in one step. The sections say what a certificate may be used for; Python
# 3.13 refuses one without key identifiers.
CONFIGURATION = """\
[req]
distinguished_name = name
[name]
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, IP:127.0.0.1, IP:{address}
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
[user]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates that everything in one run trusts."""

    folder: Path
    pair: Pair

    @classmethod
    def create(cls, folder: Path, address: str = "127.0.0.1") -> "Authority":
        """Make a new one.

        Args:
            folder: made for its files.
            address: that its servers have besides 127.0.0.1.
        """
        folder.mkdir()
        (folder / "openssl.cnf").write_text(CONFIGURATION.format(address=address))
        return cls(folder=folder, pair=_make(folder, "ca", "/CN=dragoman-e2e", "ca", None))

    def server(self, name: str) -> Pair:
        """A certificate for a server on this machine."""
        return _make(self.folder, name, f"/CN={name}", "server", self.pair)

    def user(self, name: str, *groups: str) -> Pair:
        """A certificate with which Kubernetes knows a user and his groups."""
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={name}"
        return _make(self.folder, name.replace(":", "-"), subject, "user", self.pair)


def _make(folder: Path, name: str, subject: str, section: str, signer: Pair | None) -> Pair:
    pair = Pair(certificate=folder / f"{name}.crt", key=folder / f"{name}.key")
    words = ["openssl", "req", "-x509", "-config", str(folder / "openssl.cnf")]
    words += ["-extensions", section, "-days", "2", "-subj", subject, "-nodes"]
    words += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    words += ["-keyout", str(pair.key), "-out", str(pair.certificate)]
    if signer is not None:
        words += ["-CA", str(signer.certificate), "-CAkey", str(signer.key)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"openssl made no certificate for {name}: {done.stderr}")
    return pair
