import subprocess
import sys
from pathlib import Path

ENTRY = "from adapters.cli.main import main; main()"
HEAVY = ("aiohttp", "grpc", "kubernetes", "numpy", "pydantic", "rich", "typer")


def test_a_configuration_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    words = [sys.executable, "-c", ENTRY, "node", "--config", str(tmp_path / "node.yaml")]

    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603

    assert done.returncode == 2
    assert "No such file" in done.stderr


def test_the_agent_does_not_carry_what_it_does_not_use() -> None:
    code = f"import sys, adapters.agent.__main__; print(*sys.modules.keys() & set({HEAVY!r}))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603

    assert done.stdout.strip() == ""
