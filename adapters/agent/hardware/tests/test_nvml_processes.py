"""Processes and versions, as NVML's stand-in has them."""

import pytest

from adapters.agent.hardware.nvml import NvmlError
from adapters.agent.hardware.nvml_processes import CardProcess, processes, versions
from adapters.agent.tests.stand_in import begin, nvml
from core.hardware.quantity import GIB


def test_the_processes_of_a_card_have_their_memory_where_the_driver_says_it() -> None:
    library = begin()
    library.stand_in_run(0, 2)

    found = processes(nvml(library), "GPU-0")

    assert found == (CardProcess(1000, GIB), CardProcess(1001, None))
    assert processes(nvml(library), "GPU-1") == ()


def test_a_card_that_does_not_answer_is_an_error() -> None:
    library = begin()
    library.stand_in_lose(0, 1)

    with pytest.raises(NvmlError, match="gpu is lost"):
        processes(nvml(library), "GPU-0")


def test_the_versions_are_those_of_driver_and_library() -> None:
    assert versions(nvml(begin())) == ("570.86.15", "12.570.86.15")
