import pytest

from adapters.dialects.dialect import DialectError
from adapters.dialects.formats.hami_policies import DEVICE_CONFIG
from adapters.dialects.hami.keys import HamiConfig, read_config
from adapters.dialects.hami.tests.builders import with_config


@pytest.mark.parametrize("document", [None, {}, {"nvidia": None}, {"nvidia": {}}, {"metax": {}}])
def test_what_the_file_omits_gets_the_default_of_hamis_chart(document: object) -> None:
    config = read_config({DEVICE_CONFIG: document})

    assert config == read_config({}) == HamiConfig()
    assert config.resources == (
        "nvidia.com/gpu",
        "nvidia.com/gpumem",
        "nvidia.com/gpumem-percentage",
        "nvidia.com/gpucores",
        "nvidia.com/priority",
    )
    assert (config.default_count, config.default_memory, config.default_cores) == (1, 0, 0)
    assert config.unit == 1


def test_the_file_of_hamis_chart_is_read() -> None:
    config = read_config(
        with_config(
            resourceCountName="a/gpu",
            resourceMemoryName="a/mem",
            resourceMemoryPercentageName="a/percent",
            resourceCoreName="a/cores",
            resourcePriorityName="a/priority",
            overwriteEnv=False,
            defaultMemory=1,
            defaultCores=2,
            defaultGPUNum=3,
            memoryFactor=4,
            deviceSplitCount=10,
            migProfileAllowlist=[{"models": ["A30"], "profiles": ["1g.6gb"]}],
        )
    )

    assert config.resources == ("a/gpu", "a/mem", "a/percent", "a/cores", "a/priority")
    assert (config.default_memory, config.default_cores, config.default_count) == (1, 2, 3)
    assert config.unit == 4


def test_a_factor_of_0_is_1() -> None:
    assert read_config(with_config(memoryFactor=0)).unit == 1


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"resourceCountName": ""}, "Expected `str` of length >= 1"),
        ({"defaultCores": 101}, "Expected `int` <= 100"),
        ({"defaultMemory": -1}, "Expected `int` >= 0"),
        ({"memoryFactor": "ten"}, "Expected `int`, got `str`"),
        ({"resourceCoreName": "nvidia.com/gpu"}, "must give each resource its own name"),
    ],
)
def test_an_invalid_value_is_rejected(values: dict[str, object], problem: str) -> None:
    with pytest.raises(DialectError, match=problem) as rejected:
        read_config(with_config(**values))

    assert rejected.value.field == (
        "ConfigMap hami-scheduler-device, key device-config.yaml, nvidia"
    )
