"""What an ecosystem's webhook adds to a new pod; MetaX and HAMi have tests of their own."""

import pytest

from adapters.dialects.dialect import NO_DEFAULTS, Defaults
from adapters.dialects.registry import dialects
from adapters.wire.kube import Amount, Container, Pod, PodSpec, Resources


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("volcano", {"volcano.sh/vgpu-number": 1}),
        ("koordinator", {"koordinator.sh/gpu": 100}),
    ],
)
def test_volcano_and_koordinator_add_nothing(name: str, limits: dict[str, Amount]) -> None:
    pod = Pod(spec=PodSpec(containers=(Container("main", Resources(limits)),)))
    dialect = next(one for one in dialects({}, Defaults()) if one.name == name)

    assert dialect.admission_defaults(pod, dialect.read_request(pod)) == NO_DEFAULTS
