from pathlib import Path

import pytest

from e2e.testbed.cache import NotBuiltError
from e2e.testbed.compiler import c_compiler


def test_where_there_is_none_it_says_what_is_missing_and_for_what(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(NotBuiltError, match=r"no C compiler .* for a clock; install gcc"):
        c_compiler("a clock")


def test_gcc_serves_where_there_is_no_cc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "gcc").touch(mode=0o755)

    assert c_compiler("a clock") == str(tmp_path / "gcc")
