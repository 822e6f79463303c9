"""Pods that HAMi's webhook denies."""

import pytest

from adapters.dialects.containers import reject_privileged
from adapters.dialects.dialect import DialectError
from adapters.wire.kube import Container, Pod, PodSpec, SecurityContext


def with_privilege(*, privileged: bool | None, init: bool = False) -> Pod:
    special = Container("special", security_context=SecurityContext(privileged))
    plain = Container("plain")
    return Pod(
        spec=PodSpec(
            containers=(plain,) if init else (plain, special),
            init_containers=(special,) if init else None,
        )
    )


@pytest.mark.parametrize(
    ("init", "field"),
    [
        (False, "spec.containers[special].securityContext.privileged"),
        (True, "spec.initContainers[special].securityContext.privileged"),
    ],
)
def test_one_privileged_container_of_any_phase_is_enough(init: bool, field: str) -> None:
    with pytest.raises(DialectError, match="must be false or absent") as rejected:
        reject_privileged(with_privilege(privileged=True, init=init))

    assert (rejected.value.field, rejected.value.value) == (field, True)


@pytest.mark.parametrize("privileged", [None, False])
def test_a_container_that_is_not_privileged_is_accepted(privileged: bool | None) -> None:
    reject_privileged(with_privilege(privileged=privileged))
