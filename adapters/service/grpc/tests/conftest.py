"""A short path for sockets."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("g")  # the path of a socket must be short
