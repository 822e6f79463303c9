"""What doctor says of a cluster whose installation reads ResourceClaims."""

import yaml

from adapters.cli.doctor.finding import FindingLevel
from adapters.cli.doctor.tests.sound_cluster import SoundCluster, a_sound_cluster

ERROR, WARNING = FindingLevel.ERROR, FindingLevel.WARNING


def with_dra(**settings: object) -> SoundCluster:
    cluster = a_sound_cluster()
    data = cluster.find("configmaps")["data"]
    (file,) = (name for name in data if name.endswith("sidecar.yaml"))
    data[file] = yaml.safe_dump({**yaml.safe_load(data[file]), "dra": settings})
    return cluster


def test_a_server_with_the_api_of_claims_is_good() -> None:
    cluster = with_dra(claims=True, shadows=True)

    assert cluster.problems() == []
    texts = [each.text for each in cluster.findings() if each.check == "claims"]
    assert texts == [
        "the API server serves resource.k8s.io/v1",
        "the service account kube-system/default of koord-scheduler may allocate claims",
    ]


def test_a_server_without_the_api_of_claims_is_an_error() -> None:
    cluster = with_dra(claims=True)
    cluster.absent.add("deviceclasses")

    (found,) = cluster.problems()

    assert (found.level, found.check) == (ERROR, "claims")
    assert "does not serve resource.k8s.io/v1" in found.text
    assert "1.34" in found.remedy


def test_an_installation_that_reads_no_claims_needs_no_api() -> None:
    cluster = a_sound_cluster()
    cluster.absent.add("deviceclasses")

    assert cluster.problems() == []


def test_a_class_in_the_place_of_a_dialects_resource_is_a_warning() -> None:
    cluster = with_dra(claims=True)
    spec = {"extendedResourceName": "volcano.sh/vgpu-number"}
    cluster.objects["deviceclasses"] = [
        {"metadata": {"name": "share"}, "spec": spec},
        {"metadata": {"name": "whole"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}},
    ]

    (found,) = cluster.problems()

    assert found.level is WARNING
    assert "DeviceClass share answers requests of volcano.sh/vgpu-number" in found.text


def test_rights_that_shadow_claims_need_are_asked_for() -> None:
    cluster = with_dra(claims=True, shadows=True)
    cluster.forbidden.add(("delete", "resourceclaims"))

    (found,) = cluster.problems()

    assert "delete resourceclaims.resource.k8s.io in dragoman-system" in found.text


def test_the_right_that_the_arbiter_needs_is_asked_for() -> None:
    cluster = with_dra(claims=True, arbiter=True)
    cluster.forbidden.add(("patch", "resourceclaims"))

    (found,) = cluster.problems()

    assert "patch resourceclaims.resource.k8s.io" in found.text


def test_classes_that_the_user_may_not_read_are_a_warning() -> None:
    cluster = with_dra(claims=True)
    cluster.refused.add("deviceclasses")

    (found,) = cluster.problems()

    assert found.level is WARNING
    assert "deviceclasses cannot be read" in found.text


def test_a_scheduler_of_claims_without_its_rights_is_a_warning_with_the_role() -> None:
    cluster = with_dra(claims=True)
    cluster.version = "v1.36.3"
    cluster.forbidden.add(("update", "resourceclaims/binding"))

    (found,) = cluster.problems()

    assert (found.level, found.check) == (WARNING, "claims")
    assert "koord-scheduler allocates ResourceClaims" in found.text
    assert "kube-system/default may not update resourceclaims/binding.resource.k8s.io" in found.text
    assert "{namespace: kube-system, serviceAccount: default} to the chart's" in found.remedy


def test_kubernetes_before_1_36_asks_schedulers_for_fewer_rights() -> None:
    cluster = with_dra(claims=True)
    cluster.version = "v1.35.4"
    cluster.forbidden.add(("update", "resourceclaims/binding"))
    assert cluster.problems() == []
    cluster.forbidden.add(("update", "resourceclaims/status"))

    (found,) = cluster.problems()

    assert "may not update resourceclaims/status.resource.k8s.io:" in found.text


def test_vc_scheduler_allocates_claims_where_its_configuration_says_so() -> None:
    cluster = with_dra(claims=True)
    cluster.version = "v1.37.1"
    cluster.forbidden.add(("update", "resourceclaims/binding"))
    data = cluster.find("configmaps", "vc-scheduler")["data"]
    (file,) = data
    data[file] += "\n# predicate.DynamicResourceAllocationEnable: true\n"

    texts = [found.text for found in cluster.problems()]

    assert [text.split()[0] for text in texts] == ["vc-scheduler"]


def test_rights_of_schedulers_that_are_not_known_are_not_judged() -> None:
    cluster = with_dra(claims=True)
    cluster.refused.add("subjectaccessreviews")

    assert not [each for each in cluster.findings() if "may allocate claims" in each.text]
