"""TLS of the gRPC port: certificates of both sides."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import grpc
import pytest

from adapters.sidecar.grpc import dragoman_pb2 as pb
from adapters.sidecar.grpc import dragoman_pb2_grpc as pb_grpc
from adapters.sidecar.grpc.credentials import credentials
from adapters.sidecar.grpc.server import GrpcServer
from adapters.sidecar.settings import SettingsError, read
from adapters.sidecar.tests.builders import (
    Json,
    a_node,
    a_service,
)
from adapters.sidecar.tests.test_serve import make_certificate
from adapters.sidecar.tls_settings import GrpcTls


async def cards_over_tls(port: int, server: Path, client: tuple[Path, Path] | None) -> int:
    """How many cards a client lists that trusts a server, with a certificate or without."""
    shown = [each.read_bytes() for each in client[::-1]] if client else [None, None]
    believed = grpc.ssl_channel_credentials(server.read_bytes(), *shown)
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", believed) as channel:
        stub: Any = pb_grpc.DragomanStub(channel)  # type: ignore[no-untyped-call]
        return len((await stub.ListCards(pb.ListCardsRequest(), timeout=5)).cards)


def test_over_tls_only_clients_with_a_certificate_are_answered(tmp_path: Path) -> None:
    own, client, stranger = (
        make_certificate(tmp_path, name) for name in ("own", "client", "stranger")
    )
    tls = GrpcTls(certificate=own[0], key=own[1], client_authorities=client[0])

    async def main() -> int:
        bench = await a_service(a_node("n1"))
        proof = credentials(tls, lambda text: pytest.fail(text))
        server = GrpcServer(bench.service, "0.0.0.0:0", lambda *_: "", proof)
        await server.start()
        for shown in (None, stranger):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await cards_over_tls(server.port, own[0], shown)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        found = await cards_over_tls(server.port, own[0], client)
        await server.stop()
        return found

    assert asyncio.run(main()) == 2


def test_a_new_certificate_serves_the_next_connection_and_an_invalid_one_is_reported(
    tmp_path: Path,
) -> None:
    first, second, client = (
        make_certificate(tmp_path, name) for name in ("first", "second", "client")
    )
    crt, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    problems: list[str] = []

    def put(chain: bytes, secret: Path) -> None:
        crt.write_bytes(chain)
        key.write_bytes(secret.read_bytes())

    async def main() -> list[int]:
        bench = await a_service(a_node("n1"))
        put(first[0].read_bytes(), first[1])
        tls = GrpcTls(certificate=crt, key=key, client_authorities=client[0])
        server = GrpcServer(
            bench.service, "127.0.0.1:0", lambda *_: "", credentials(tls, problems.append)
        )
        await server.start()
        seen = [await cards_over_tls(server.port, first[0], client)]
        put(b"nonsense", first[1])
        seen.append(await cards_over_tls(server.port, first[0], client))
        put(second[0].read_bytes(), second[1])
        seen.append(await cards_over_tls(server.port, second[0], client))
        await server.stop()
        return seen

    assert asyncio.run(main()) == [2, 2, 2]
    assert len(problems) == 1
    assert "grpcTls" in problems[0]


def test_an_unreadable_certificate_is_named(tmp_path: Path) -> None:
    own = make_certificate(tmp_path, "own")
    missing = tmp_path / "missing"

    with pytest.raises(SettingsError, match="grpcTls: the certificate"):
        credentials(GrpcTls(certificate=missing, key=own[1], client_authorities=own[0]), print)
    with pytest.raises(SettingsError, match=r"grpcTls\.clientAuthorities"):
        credentials(GrpcTls(certificate=own[0], key=own[1], client_authorities=missing), print)


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
