"""Layouts and numbers of NVML against NVIDIA's own binding (nvidia-ml-py, for tests only)."""

import ctypes
from typing import Any

import pynvml  # type: ignore[import-untyped]
import pytest

from adapters.agent.hardware import nvml, nvml_events, nvml_links, nvml_mig, nvml_processes
from adapters.agent.hardware.health import RECOVERY_ACTIONS

LAYOUTS = {
    nvml._Memory: ("c_nvmlMemory_t", {}),
    nvml._Utilization: ("c_nvmlUtilization_t", {}),
    nvml.Pci: ("nvmlPciInfo_t", {}),
    nvml_events._Event: (
        "c_nvmlEventData_t",
        {
            "type": "eventType",
            "data": "eventData",
            "gpu_instance": "gpuInstanceId",
            "compute_instance": "computeInstanceId",
        },
    ),
    nvml_events._Value: ("c_nvmlValue_t", {"number": "uiVal", "large": "ullVal"}),
    nvml_events._Field: (
        "c_nvmlFieldValue_t",
        {
            "field": "fieldId",
            "scope": "scopeId",
            "latency": "latencyUsec",
            "type": "valueType",
            "code": "nvmlReturn",
        },
    ),
    nvml_processes.Process: (
        "c_nvmlProcessInfo_v2_t",
        {
            "used_memory": "usedGpuMemory",
            "gpu_instance": "gpuInstanceId",
            "compute_instance": "computeInstanceId",
        },
    ),
    nvml_mig.PlacementStruct: ("c_nvmlGpuInstancePlacement_t", {}),
    nvml_mig.InstanceInfo: ("c_nvmlGpuInstanceInfo_t", {}),
    nvml_mig.Profile: (
        "c_nvmlGpuInstanceProfileInfo_v2_t",
        {"engines": "multiprocessorCount", "memory_mib": "memorySizeMB"},
    ),
    nvml_mig.ComputeProfile: (
        "c_nvmlComputeInstanceProfileInfo_t",
        {"engines": "multiprocessorCount"},
    ),
}
"""Our structures: NVIDIA's name, and those of its fields that are not ours in camel case."""

NUMBERS = {
    "NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE": nvml_processes._VERSION,
    "nvmlEventTypeXidCriticalError": nvml_events._XID,
    "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION": nvml_events._RECOVERY,
    "NVML_NVLINK_MAX_LINKS": nvml_links._LINKS,
    "NVML_NVLINK_DEVICE_TYPE_SWITCH": nvml_links._SWITCH,
    "NVML_TOPOLOGY_MULTIPLE": nvml_links._ONE_TREE,
    "NVML_DEVICE_MIG_ENABLE": nvml_mig.ON,
    "NVML_GPU_INSTANCE_PROFILE_COUNT": nvml_mig.PROFILES,
    "NVML_COMPUTE_INSTANCE_PROFILE_COUNT": nvml_mig.COMPUTE_PROFILES,
    "NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED": nvml_mig.SHARED_ENGINES,
    "nvmlGpuInstanceProfileInfo_v2": nvml_mig.PROFILE_VERSION,
}


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def test_every_structure_is_compared() -> None:
    ours = {
        each
        for module in (nvml, nvml_events, nvml_links, nvml_mig, nvml_processes)
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, ctypes.Structure | ctypes.Union)
    }

    assert ours == set(LAYOUTS)


@pytest.mark.parametrize("ours", LAYOUTS, ids=lambda ours: ours.__name__)
def test_a_structure_has_nvidias_size_and_offsets(ours: Any) -> None:
    name, renamed = LAYOUTS[ours]
    theirs = getattr(pynvml, name)
    known = {each[0].lower(): getattr(theirs, each[0]) for each in theirs._fields_}

    assert ctypes.sizeof(ours) == ctypes.sizeof(theirs)
    for field, *_ in ours._fields_:
        expected = known[renamed.get(field, camel(field)).lower()]
        found = getattr(ours, field)
        assert found.offset == expected.offset, field
        if field != "engines":  # six numbers of NVIDIA's
            assert found.size == expected.size, field


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_nvidias(name: str) -> None:
    assert getattr(pynvml, name) == NUMBERS[name]


@pytest.mark.parametrize("code", nvml.NvmlReturn, ids=lambda code: code.name)
def test_an_error_code_is_nvidias(code: nvml.NvmlReturn) -> None:
    assert getattr(pynvml, f"NVML_ERROR_{code.name}") == code


def test_the_recovery_actions_are_all_of_nvidias_that_concern_the_card() -> None:
    theirs = {
        getattr(pynvml, name) for name in dir(pynvml) if name.startswith("NVML_GPU_RECOVERY_ACTION")
    }

    domain = pynvml.NVML_GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN
    assert set(RECOVERY_ACTIONS) == theirs - {pynvml.NVML_GPU_RECOVERY_ACTION_NONE, domain}
