import json
from dataclasses import replace

import msgspec
import pytest

from adapters.wire.records.hardware import (
    DeviceHolding,
    HardwareRecordError,
    NodeHardware,
    decode,
    encode,
)
from core.hardware.card import Card, Level, Mode, Scope
from core.hardware.mig_catalog import geometry
from core.hardware.quantity import GIB

MODEL = "NVIDIA A100-SXM4-40GB"
CARD = Card(
    "GPU-0",
    "n",
    0,
    "nvidia",
    MODEL,
    40 * GIB,
    10,
    healthy=False,
    mode=Mode.MIG,
    numa=1,
    links=(Scope(Level.PCIE, "pcie-0"),),
    dialects=frozenset({"volcano"}),
    names=(MODEL,),
)


def test_decode_returns_what_was_encoded() -> None:
    held = DeviceHolding("7", "main", "nvidia.com/gpu", 2, ("GPU-0", "GPU-1"), shared=True)
    hardware = NodeHardware(
        (CARD,),
        "HAMi-core",
        (("GPU-0", "Xid 79"),),
        (held,),
        ("7", "8"),
        mig_cut=True,
    )

    assert decode(encode(hardware), "n") == hardware
    assert decode(encode(NodeHardware()), "n") == NodeHardware()


def test_a_patch_with_it_leaves_nothing_of_an_earlier_one() -> None:
    assert json.loads(encode(NodeHardware())) == {
        "cards": [],
        "isolation": None,
        "problems": [],
        "holdings": [],
        "stopped": [],
        "migCut": None,
    }


def test_layouts_are_not_encoded() -> None:
    cut = msgspec.json.decode(encode(NodeHardware((CARD,))))
    whole = NodeHardware((replace(CARD, geometry=geometry((MODEL,))),))

    assert msgspec.json.decode(encode(whole)) == cut


@pytest.mark.parametrize("empty", [b"", b"null"])
def test_no_status_says_nothing(empty: bytes) -> None:
    assert decode(empty, "n") is None


@pytest.mark.parametrize(
    "status",
    [
        b"[]",
        b"{",
        b"\xff",
        b'{"cards": [{"uuid": "a"}]}',
        b'{"cards": [{"uuid":"a","index":0,"vendor":"v","model":"","memory":1,"slots":1,'
        b'"links":[{"level":"moon","name":"x"}]}]}',
        b'{"cards": [{"uuid":"a","index":0,"vendor":"v","model":"","memory":1,"slots":1,'
        b'"geometry":3}]}',
        b'{"holdings":[{"pod":"7","container":"c","resource":"r","count":-1,"cards":["GPU-0"]}]}',
        b'{"holdings":[{"pod":"7","container":"c","resource":"r","count":1,"cards":[]}]}',
        b'{"holdings":[{"pod":"7"}]}',
        b'{"stopped":[7]}',
        b'{"migCut":"yes"}',
        b'{"cards": [{"uuid":"a","index":0,"vendor":"v","model":"","memory":-1,"slots":1}]}',
    ],
)
def test_what_is_no_status_is_an_error(status: bytes) -> None:
    with pytest.raises(HardwareRecordError, match="the status of the ledger"):
        decode(status, "n")
