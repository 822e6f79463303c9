import os
from pathlib import Path

from adapters.agent.metrics.hami_region import VERSION_1
from adapters.agent.metrics.tests.test_hami_region import region
from adapters.agent.metrics.usage import region_of


def test_the_number_of_files_that_are_read_is_limited(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"{number}.cache").touch()

    assert region_of(tmp_path) is None
    assert region_of(tmp_path / "nowhere") is None
    os.mkfifo(tmp_path / f"{tmp_path.name}.cache")
    assert region_of(tmp_path) is None


def test_a_file_with_another_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "6f9619ff.cache").write_bytes(region(VERSION_1))

    assert region_of(tmp_path) is not None
