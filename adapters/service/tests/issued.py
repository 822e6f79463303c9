"""Certificates for the ports of a service under test."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True)
class Issued:
    """A certificate for 127.0.0.1 and its key, by an authority of its own."""

    certificate: Path
    key: Path
    authority: Path

    @classmethod
    def make(cls, folder: Path, name: str) -> "Issued":
        made = cls(*(folder / f"{name}.{part}" for part in ("crt", "key", "ca")))
        authority = trustme.CA()
        leaf = authority.issue_cert("127.0.0.1")
        leaf.cert_chain_pems[0].write_to_path(made.certificate)
        leaf.private_key_pem.write_to_path(made.key)
        authority.cert_pem.write_to_path(made.authority)
        return made

    def copy(self, certificate: Path, key: Path) -> None:
        shutil.copy(self.certificate, certificate)
        shutil.copy(self.key, key)
