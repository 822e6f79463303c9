import json
from pathlib import Path

import msgspec
import pytest

from adapters.agent.__main__ import BAD_INPUT, main
from adapters.agent.apiserver.ledger import LedgerFile
from adapters.agent.config import AgentConfig, ConfigError, node_name, profiles, read
from adapters.agent.grants import GrantStatus, LedgerGrants
from adapters.agent.hardware.model import FileInventory, InventoryError
from adapters.agent.injection.adjustment import supports_cdi
from adapters.agent.injection.profiles import PROFILES, Preload
from adapters.agent.nri.model import Mount, RuntimeInfo
from adapters.agent.tests.builders import ledger
from adapters.wire.records.ledger import encode
from core.hardware.card import Mode
from core.hardware.mig import MigKey
from core.hardware.quantity import GIB
from core.requests.grant import Grant

SHIPPED = Path(__file__).parents[3] / "configs" / "node.yaml"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "node.yaml"
    path.write_text(text)
    return path


def test_the_shipped_file_has_the_default_values(tmp_path: Path) -> None:
    shipped = read(SHIPPED)
    empty = read(written(tmp_path, ""))

    assert profiles(shipped) == profiles(empty) == dict(PROFILES)
    assert msgspec.structs.replace(shipped, profiles={}) == empty


def test_a_section_changes_only_the_keys_that_it_has(tmp_path: Path) -> None:
    text = """
    profiles:
      nvidia: {cdi: "nvidia.com/gpu={uuid}", hamiCore: {preload: variable}}
      metax:
        served: true
        hamiCore: null
        env: {A: "{indexes}"}
        mounts: [{source: /opt/mx, destination: /opt/mx}]
      other: {visible: OTHER}
    """

    found = profiles(read(written(tmp_path, text)))

    assert found["nvidia"].cdi == "nvidia.com/gpu={uuid}"
    assert found["nvidia"].devices == PROFILES["nvidia"].devices
    assert found["nvidia"].hami is not None
    assert found["nvidia"].hami.preload is Preload.VARIABLE
    assert found["metax"].mounts == (Mount("/opt/mx", "bind", "/opt/mx", ("rbind", "ro")),)
    assert found["metax"].env == {"A": "{indexes}"}
    assert found["other"].visible_env == "OTHER"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sokcet: x", "sokcet"),
        ("plugin: {index: 5}", "str"),
        ("plugin: {index: '5'}", "two digits"),
        ("inventory: {source: guess}", "nvml, file or none"),
        ("[", "node.yaml"),
        ("plugin: {index: " + "9" * 5000 + "}", "node.yaml"),
        ("plugin: {index: 2026-99-99}", "node.yaml"),
        ("- 1", "object"),
    ],
)
def test_an_invalid_file_is_rejected(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        read(written(tmp_path, text))


def test_bad_input_ends_the_agent_before_it_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "nowhere")]) == BAD_INPUT
    assert main([]) == BAD_INPUT
    assert "No such file" in capsys.readouterr().err


def test_the_node_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_NAME", "from-environment")

    assert node_name(AgentConfig(node="a")) == "a"
    assert node_name(AgentConfig()) == "from-environment"
    monkeypatch.delenv("NODE_NAME")
    assert node_name(AgentConfig())


@pytest.mark.parametrize(
    ("name", "version", "supported"),
    [
        ("containerd", "1.7.24~ds1", False),
        ("containerd", "v2.0.5", False),
        ("containerd", "2.1.9+ds1", True),
        ("containerd", "v2.4.2", True),
        ("containerd", "unknown", False),
        ("containerd", "2", False),
        ("cri-o", "1.34.0", False),
    ],
)
def test_cdi_is_used_where_it_is_known_to_work(name: str, version: str, supported: bool) -> None:
    assert supports_cdi(RuntimeInfo(name, version)) is supported


def test_a_list_of_cards_is_read(tmp_path: Path) -> None:
    cards = [
        {"uuid": "GPU-1", "index": 1, "memoryMiB": 1024, "devices": ["/dev/x"]},
        {
            "uuid": "GPU-0",
            "index": 0,
            "mode": "mig",
            "model": "A100",
            "instances": [{"profile": "1g.5gb", "start": 2, "uuid": "MIG-1"}],
        },
    ]
    inventory = FileInventory(written(tmp_path, json.dumps({"cards": cards})), "a")

    found = inventory.read()

    assert [card.uuid for card in found.cards] == ["GPU-0", "GPU-1"]
    assert found.cards[0].mode is Mode.MIG
    assert found.cards[1].memory == GIB
    assert found.devices == {"GPU-1": ("/dev/x",)}
    assert found.instances[MigKey("GPU-0", "1g.5gb", 2)].uuid == "MIG-1"
    assert inventory.loads() == {}


@pytest.mark.parametrize("text", ["", "cards: 1", "cards: [{uuid: a}]", "{", "cards: []\nmore: 1"])
def test_an_invalid_list_of_cards_is_rejected(tmp_path: Path, text: str) -> None:
    with pytest.raises(InventoryError):
        FileInventory(written(tmp_path, text), "a").read()


def test_a_ledger_in_a_file_is_followed(tmp_path: Path) -> None:
    grants = LedgerGrants()
    path = tmp_path / "ledger.json"
    file = LedgerFile(path, grants)
    assert not file.look()

    path.write_bytes(encode(ledger(Grant("main", "GPU-0", GIB, 1))))
    assert file.look()
    assert not file.look()
    assert grants.lookup("uid-1", "other") is GrantStatus.NO_SHARE

    path.write_text("half a rec")
    assert not file.look()
    assert grants.lookup("uid-1", "other") is GrantStatus.NO_SHARE
    path.unlink()
    assert not file.look()


def test_no_version_of_control_groups_matters_since_the_agent_reads_none() -> None:
    """The runtime names pod and container; docs/reference/compatibility.md says what ran."""
    sources = [
        path for path in Path(__file__).parents[1].rglob("*.py") if "tests" not in path.parts
    ]

    assert sources
    assert [path.name for path in sources if "cgroup" in path.read_text()] == []
