"""What doctor says of the claims of our driver, with the driver and without."""

import pytest

from adapters.cli.doctor.finding import FindingLevel
from adapters.cli.doctor.tests.sound_cluster import SoundCluster
from adapters.cli.doctor.tests.test_claims import with_dra

DRIVER = "gpu.dragoman.dev"


def with_claims(*drivers: str) -> SoundCluster:
    """An installation that reads claims, and one allocated claim of each driver."""
    cluster = with_dra(claims=True)
    cluster.objects["resourceclaims"] = [
        {
            "metadata": {"name": f"c{number}", "namespace": "team", "uid": f"u{number}"},
            "status": {
                "allocation": {
                    "devices": {
                        "results": [{"driver": driver, "pool": "n", "device": "d", "request": "r"}]
                    }
                }
            },
        }
        for number, driver in enumerate(drivers)
    ]
    cluster.objects["resourceclaims"].append({"metadata": {"name": "waits", "namespace": "team"}})
    return cluster


def test_without_the_driver_its_claims_are_an_error() -> None:
    (found,) = with_claims("gpu.nvidia.com", DRIVER, DRIVER).problems()

    assert found.level is FindingLevel.ERROR
    assert (
        "claims with devices of gpu.dragoman.dev are allocated (2, such as team/c1)" in found.text
    )
    assert "neither start nor finish terminating" in found.text
    assert "dra.driver.enabled=true" in found.remedy


def test_with_the_driver_they_are_counted() -> None:
    cluster = with_claims(DRIVER)
    agent = cluster.find("daemonsets", "dragoman-node")
    agent["spec"]["template"]["spec"]["containers"].append({"name": "dra-driver"})

    assert cluster.problems() == []
    (found,) = (each for each in cluster.findings() if "dra.driver is turned off" in each.text)
    assert "(1, such as team/c0)" in found.text


@pytest.mark.parametrize("drivers", [(), ("gpu.nvidia.com",)])
def test_claims_of_other_drivers_are_no_finding(drivers: tuple[str, ...]) -> None:
    assert with_claims(*drivers).problems() == []


def test_who_may_not_list_agents_gets_no_wrong_error() -> None:
    cluster = with_claims(DRIVER)
    cluster.refused.add("daemonsets")

    assert [each.text for each in cluster.problems() if "gpu.dragoman.dev" in each.text] == []
