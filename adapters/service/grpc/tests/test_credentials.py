"""TLS of the gRPC port: certificates of both sides."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import grpc
import pytest

from adapters.service.grpc import dragoman_pb2 as pb
from adapters.service.grpc import dragoman_pb2_grpc as pb_grpc
from adapters.service.grpc.server import GrpcServer, credentials
from adapters.service.settings.sections import GrpcTls
from adapters.service.settings.settings import SettingsError, read
from adapters.service.tests.builders import (
    Json,
    a_node,
    a_service,
)
from adapters.service.tests.issued import Issued


async def cards_over_tls(port: int, server: Issued, client: Issued | None) -> int:
    """How many cards a client lists that trusts a server, with a certificate or without."""
    shown = [each.read_bytes() for each in (client.key, client.certificate)] if client else ()
    believed = grpc.ssl_channel_credentials(server.authority.read_bytes(), *shown)
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", believed) as channel:
        stub: Any = pb_grpc.DragomanStub(channel)  # type: ignore[no-untyped-call]
        return len((await stub.ListCards(pb.ListCardsRequest(), timeout=30)).cards)


def test_over_tls_only_clients_with_a_certificate_are_answered(tmp_path: Path) -> None:
    own, client, stranger = (Issued.make(tmp_path, name) for name in ("own", "client", "stranger"))
    tls = GrpcTls(certificate=own.certificate, key=own.key, client_authorities=client.authority)

    async def main() -> int:
        bench = await a_service(a_node("n1"))
        proof = credentials(tls, lambda text: pytest.fail(text))
        server = GrpcServer(bench.service, "0.0.0.0:0", lambda *_: "", proof)
        await server.start()
        for shown in (None, stranger):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await cards_over_tls(server.port, own, shown)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        found = await cards_over_tls(server.port, own, client)
        await server.stop()
        return found

    assert asyncio.run(main()) == 2


def test_a_new_certificate_serves_the_next_connection_and_an_invalid_one_is_reported(
    tmp_path: Path,
) -> None:
    first, second, client = (Issued.make(tmp_path, name) for name in ("first", "second", "client"))
    crt, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    problems: list[str] = []

    async def main() -> list[int]:
        bench = await a_service(a_node("n1"))
        first.copy(crt, key)
        tls = GrpcTls(certificate=crt, key=key, client_authorities=client.authority)
        server = GrpcServer(
            bench.service, "127.0.0.1:0", lambda *_: "", credentials(tls, problems.append)
        )
        await server.start()
        seen = [await cards_over_tls(server.port, first, client)]
        crt.write_bytes(b"nonsense")
        seen.append(await cards_over_tls(server.port, first, client))
        second.copy(crt, key)
        seen.append(await cards_over_tls(server.port, second, client))
        await server.stop()
        return seen

    assert asyncio.run(main()) == [2, 2, 2]
    assert len(problems) == 1
    assert "grpcTls" in problems[0]


def test_an_unreadable_certificate_is_named(tmp_path: Path) -> None:
    own = Issued.make(tmp_path, "own")
    missing = tmp_path / "missing"

    with pytest.raises(SettingsError, match="grpcTls: the certificate"):
        credentials(
            GrpcTls(certificate=missing, key=own.key, client_authorities=own.authority), print
        )
    with pytest.raises(SettingsError, match=r"grpcTls\.clientAuthorities"):
        credentials(
            GrpcTls(certificate=own.certificate, key=own.key, client_authorities=missing), print
        )


TLS_KEYS = {"certificate": "a", "key": "b", "clientAuthorities": "c"}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"grpc": "0.0.0.0:9596"}, "grpc: '0.0.0.0:9596': is reached from other machines"),
        ({"grpc": "example.org:1"}, "set grpcTls"),
        ({"grpc": "auto", "grpcTls": TLS_KEYS}, "must be HOST:PORT"),
        ({"grpc": "0.0.0.0:1", "grpcTls": {"certificate": "a"}}, "grpcTls.key"),
        ({"grpc": "somewhere"}, "grpc"),
    ],
)
def test_a_reachable_port_requires_tls_with_client_certificates(
    settings: Json, problem: str, tmp_path: Path
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(json.dumps(settings))

    with pytest.raises(SettingsError, match=re.escape(problem)):
        read(file, {})
