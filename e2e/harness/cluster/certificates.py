"""A certificate authority for one run, and certificates for servers and users."""

from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates that everything in one run trusts.

    Attributes:
        folder: of all files.
        pair: the authority's own.
        address: of its servers, besides localhost and 127.0.0.1.
    """

    folder: Path
    pair: Pair
    address: str
    _ca: trustme.CA

    @classmethod
    def create(cls, folder: Path, address: str = "127.0.0.1") -> "Authority":
        """Make a new one.

        Args:
            folder: made for its files.
            address: of its servers, besides localhost and 127.0.0.1.
        """
        folder.mkdir()
        ca = trustme.CA(organization_name="dragoman-e2e")
        pair = _write(folder, "ca", ca.cert_pem, ca.private_key_pem)
        return cls(folder=folder, pair=pair, address=address, _ca=ca)

    def server(self, name: str) -> Pair:
        """A certificate for a server on this machine."""
        addresses = dict.fromkeys(("localhost", "127.0.0.1", self.address))
        made = self._ca.issue_cert(*addresses, common_name=name)
        return _write(self.folder, name, made.cert_chain_pems[0], made.private_key_pem)

    def user(self, name: str, group: str = "") -> Pair:
        """A certificate with which Kubernetes knows a user and one group of the user.

        Without a group the organization is one that no role names. The name of a host is there
        because trustme marks the list of such names critical, and Go refuses an empty one.
        """
        organization = group or "dragoman-e2e"
        made = self._ca.issue_cert("user.invalid", common_name=name, organization_name=organization)
        file = name.replace(":", "-")
        return _write(self.folder, file, made.cert_chain_pems[0], made.private_key_pem)


def _write(folder: Path, name: str, certificate: trustme.Blob, key: trustme.Blob) -> Pair:
    pair = Pair(certificate=folder / f"{name}.crt", key=folder / f"{name}.key")
    certificate.write_to_path(pair.certificate)
    key.write_to_path(pair.key)
    return pair
