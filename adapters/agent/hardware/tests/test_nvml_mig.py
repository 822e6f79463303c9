"""Tests on a stand-in of NVML without cards; see ``nvml_stand_in.c``."""

from typing import Any

import pytest

from adapters.agent.hardware.nvml import NvmlError
from adapters.agent.hardware.nvml_mig import MigError, NvmlMigDriver, NvmlMigReader
from adapters.agent.tests.stand_in import begin, nvml
from core.hardware.mig_repartition import GpuInstancePlacement

ONE, TWO, THREE = (
    GpuInstancePlacement("1g.5gb", 3, 1),
    GpuInstancePlacement("2g.10gb", 2, 2),
    GpuInstancePlacement("3g.20gb", 4, 4),
)


def mig(library: Any) -> NvmlMigDriver:
    return NvmlMigDriver(NvmlMigReader(nvml(library)))


def there(driver: NvmlMigDriver) -> list[GpuInstancePlacement]:
    return [part.placement for part in driver.reader.instances("GPU-0") or ()]


def test_instances_are_created_at_their_places_and_each_has_a_device() -> None:
    driver = mig(begin(1, mig=True))

    problems = driver.repartition("GPU-0", (), [THREE, TWO])

    assert problems == {}
    parts = driver.reader.instances("GPU-0") or ()
    assert [part.placement for part in parts] == [TWO, THREE]
    assert [part.whole.name for part in parts if part.whole] == [
        "NVIDIA A100-SXM4-40GB MIG 2g.10gb",
        "NVIDIA A100-SXM4-40GB MIG 3g.20gb",
    ]


def test_an_instance_in_the_way_is_destroyed() -> None:
    driver = mig(begin(1, mig=True))
    driver.repartition("GPU-0", (), [ONE, THREE])

    problems = driver.repartition("GPU-0", [ONE], [TWO])

    assert problems == {}
    assert there(driver) == [TWO, THREE]


def test_an_instance_with_a_process_stays() -> None:
    library = begin(1, mig=True)
    driver = mig(library)
    driver.repartition("GPU-0", (), [ONE])
    library.stand_in_run_at(0, 3, 1)

    problems = driver.repartition("GPU-0", [ONE], [TWO, THREE])

    assert problems == {TWO: "1g.5gb at 3 is in its way: a process runs on it"}
    assert there(driver) == [ONE, THREE]


def test_a_profile_that_the_card_does_not_support_is_the_reason() -> None:
    library = begin(1, mig=True)
    driver = mig(library)
    strange = GpuInstancePlacement("5g.1gb", 0, 1)
    driver.repartition("GPU-0", (), [ONE])

    problems = driver.repartition(
        "GPU-0", (), [TWO, strange, GpuInstancePlacement("2g.10gb", 1, 2)]
    )

    assert "insufficient resources" in problems[TWO]
    assert problems[strange] == "the card does not support the profile 5g.1gb"
    assert "invalid argument" in problems[GpuInstancePlacement("2g.10gb", 1, 2)]
    library.stand_in_deny(1)
    assert "no permission" in driver.repartition("GPU-0", (), [THREE])[THREE]


def test_an_instance_without_its_compute_instance_is_destroyed_again() -> None:
    library = begin(1, mig=True)
    driver = mig(library)
    library.stand_in_fail_compute(1)

    problems = driver.repartition("GPU-0", (), [TWO])

    assert "nvmlGpuInstanceCreateComputeInstance" in problems[TWO]
    assert there(driver) == []


def test_an_interrupted_creation_is_completed() -> None:
    library = begin(1, mig=True)
    driver = mig(library)
    driver.repartition("GPU-0", (), [TWO])
    half = library.stand_in_serial(0, 2)
    library.stand_in_empty(0, 2)
    assert [part.whole for part in driver.reader.instances("GPU-0") or ()] == [None]

    problems = driver.repartition("GPU-0", (), [TWO])

    assert problems == {}
    assert [part.whole is not None for part in driver.reader.instances("GPU-0") or ()] == [True]
    assert library.stand_in_serial(0, 2) == half


def test_an_instance_that_is_divided_stays_and_is_not_used() -> None:
    library = begin(1, mig=True)
    driver = mig(library)
    driver.repartition("GPU-0", (), [TWO])
    library.stand_in_divide(0, 2, 1)

    problems = driver.repartition("GPU-0", (), [TWO])

    assert problems == {TWO: "it exists, but is divided among compute instances"}
    assert [part.whole for part in driver.reader.instances("GPU-0") or ()] == [None]


def test_a_card_with_all_its_instances_is_left_alone() -> None:
    library = begin(1, mig=True)
    driver = mig(library)
    driver.repartition("GPU-0", (), [TWO])
    before = library.stand_in_serial(0, 2)

    assert driver.repartition("GPU-0", (), [TWO]) == {}
    assert library.stand_in_serial(0, 2) == before


def test_mig_mode_is_enabled_where_no_process_runs() -> None:
    library = begin(3)
    driver = mig(library)
    library.stand_in_run(1, 1)
    library.stand_in_needs_reset(2)

    driver.enable("GPU-0")

    assert driver.reader.instances("GPU-0") == ()
    driver.enable("GPU-0")
    with pytest.raises(MigError, match="in use"):
        driver.enable("GPU-1")
    with pytest.raises(MigError, match="needs a reset"):
        driver.enable("GPU-2")
    assert driver.reader.instances("GPU-1") is None


def test_a_card_counts_as_in_use_where_the_library_cannot_list_processes() -> None:
    library = begin(1)

    class Older:
        def __getattr__(self, name: str) -> Any:
            if name.startswith("nvmlDeviceGetComputeRunningProcesses"):
                raise AttributeError(name)
            return getattr(library, name)

    with pytest.raises(MigError, match="in use"):
        mig(Older()).enable("GPU-0")


def test_a_card_that_does_not_answer_is_an_error() -> None:
    library = begin(1, mig=True)
    library.stand_in_lose(0, 1)

    with pytest.raises(NvmlError, match="gpu is lost"):
        mig(library).repartition("GPU-0", (), [TWO])
