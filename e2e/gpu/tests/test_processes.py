"""Processes and versions, as NVML's stand-in has them."""

from adapters.agent.hardware.nvidia import NvmlInventory
from adapters.agent.tests.stand_in import begin, nvml
from e2e.gpu.reading import ReadProcess, processes, read_cards


def test_the_processes_of_a_card_have_their_memory_where_the_driver_says_it() -> None:
    library = begin()
    library.stand_in_run(0, 2)

    found = processes(nvml(library), "GPU-0")

    assert found == (ReadProcess(1000, 1024), ReadProcess(1001, None))
    assert processes(nvml(library), "GPU-1") == ()


def test_a_card_that_does_not_answer_has_no_known_processes() -> None:
    library = begin()
    library.stand_in_lose(0, 1)

    assert processes(nvml(library), "GPU-0") == ()


def test_the_versions_are_those_of_driver_and_library() -> None:
    found = read_cards("nvml", NvmlInventory("n", nvml(begin())))

    assert (found.driver, found.library) == ("570.86.15", "12.570.86.15")
