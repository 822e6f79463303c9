import os
from pathlib import Path

from adapters.node.metrics.hami_region import VERSION_1
from adapters.node.metrics.tests.test_hami_region import region
from adapters.node.metrics.usage import region_of


def test_of_many_files_a_few_are_looked_at(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"{number}.cache").touch()

    assert region_of(tmp_path) is None
    assert region_of(tmp_path / "nowhere") is None
    os.mkfifo(tmp_path / f"{tmp_path.name}.cache")
    assert region_of(tmp_path) is None


def test_a_file_with_another_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "6f9619ff.cache").write_bytes(region(VERSION_1))

    assert region_of(tmp_path) is not None
