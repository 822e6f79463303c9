"""What the operator sets: one YAML file, and over it the environment."""

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from adapters.dialects import registry
from adapters.dialects.dialect import Defaults, Policy

PREFIX = "DRAGOMAN_"
"""What a variable's name begins with; the key follows, with ``_`` between its parts."""


ADDRESS = r"^(\[[0-9a-fA-F:]+\]|[^:\s]*):[0-9]{1,5}$"


UNIX = "unix:"
"""What stands before the path of a socket."""

DAY = 24 * 3600

_LISTED = BeforeValidator(
    lambda value: [part.strip() for part in value.split(",")] if isinstance(value, str) else value
)
"""In the environment a list is a text with commas."""

_WORD = BeforeValidator(lambda value: "off" if value is False else value)
"""YAML reads the word off as a boolean."""


def _registered(name: str) -> str:
    """Check that a dialect has this name."""
    names = registry.names()
    if name not in names:
        raise PydanticCustomError(
            "dialect", "Input should be one of {names}", {"names": ", ".join(names)}
        )
    return name


_DialectName = Annotated[str, AfterValidator(_registered)]


class SettingsError(ValueError):
    """A setting that cannot be meant; the text names its key."""


class Section(BaseModel):
    """A part of the settings; keys are in camelCase, and unknown ones are errors."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )


class Managed(Section):
    """A certificate that the service makes and renews itself, kept in a Secret of its namespace.

    Attributes:
        secret: its name; it must be there, empty at first.
        names: DNS names and addresses under which the API server asks us.
        webhooks: mutating webhook configurations that must trust us.
        leaf_seconds: for how long a certificate is valid; it is renewed after two thirds.
        authority_seconds: the same for the authority that signs it.
        overlap_seconds: between two steps from one authority to the next.
    """

    secret: Annotated[str, Field(min_length=1)]
    names: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1), _LISTED]
    webhooks: Annotated[tuple[str, ...], _LISTED] = ()
    leaf_seconds: Annotated[int, Field(ge=6)] = 90 * DAY
    authority_seconds: Annotated[int, Field(ge=12)] = 365 * DAY
    overlap_seconds: Annotated[int, Field(ge=1)] = 300

    @model_validator(mode="after")
    def _overlaps(self) -> "Managed":
        """What is renewed after two thirds of its life has time for all steps in the last one."""
        if self.leaf_seconds < 6 * self.overlap_seconds:
            raise ValueError("leafSeconds must be at least 6 times overlapSeconds")
        if self.authority_seconds < 2 * self.leaf_seconds:
            raise ValueError("authoritySeconds must be at least 2 times leafSeconds")
        return self


class Tls(Section):
    """The port's certificate: from files, or made by the service itself.

    Attributes:
        listen: ``HOST:PORT`` of its own, beside the one in the clear; where not given, there is
            none in the clear.
        certificate: file with the chain, PEM; read again when it changes.
        key: file with its key, PEM.
        managed: in the place of both files.
        client_authorities: file with the authorities of clients, PEM; without a certificate from
            one of them nobody is answered.
    """

    certificate: Path | None = None
    key: Path | None = None
    managed: Managed | None = None
    listen: Annotated[str, Field(pattern=ADDRESS)] | None = None
    client_authorities: Path | None = None

    @model_validator(mode="after")
    def _one_source(self) -> "Tls":
        """A certificate comes from one place."""
        if self.managed is not None:
            if self.certificate is not None or self.key is not None:
                raise ValueError("tls.managed makes the certificate: leave certificate and key out")
        elif self.certificate is None or self.key is None:
            raise ValueError("tls.certificate and tls.key are needed, or tls.managed")
        return self


class PolicySettings(Section):
    """For pods that do not say themselves; each value applies without a restart.

    Attributes:
        node: ``binpack`` or ``spread``, in place of each vocabulary's own default.
        card: the same for the cards of a node.
        topology_aware: whether links count in the choice of the node.
    """

    node: Policy | None = None
    card: Policy | None = None
    topology_aware: bool | None = None

    def defaults(self) -> Defaults:
        """As the dialects take them."""
        return Defaults(self.node, self.card, self.topology_aware)


class Log(Section):
    """What is written to standard error.

    Attributes:
        level: the least that is written.
        format: ``json`` for machines, ``text`` for people.
    """

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "text"] = "json"


class GrpcTls(Section):
    """The gRPC port's certificate, and whose clients are answered; read again when files change.

    Attributes:
        certificate: file with the chain, PEM.
        key: file with its key, PEM.
        client_authorities: file with the authorities of clients, PEM; without a certificate from
            one of them nobody is answered.
    """

    certificate: Path
    key: Path
    client_authorities: Path


class Settings(Section):
    """All of it.

    Attributes:
        listen: ``HOST:PORT`` on which HTTP is answered.
        tls: how, if not in the clear.
        grpc: where gRPC is answered: ``auto`` for a socket in the runtime directory if there can
            be one, ``unix:PATH``, ``HOST:PORT``, or ``off``.
        grpc_tls: how, on a port; without it the port must be this machine's own.
        store: where the ledgers are: ``memory``, ``sqlite:PATH`` or ``kubernetes``.
        kubeconfig: how the cluster is reached; the pod's own service account where not given.
        namespace: where the reconciler's Lease lives.
        hold_seconds: for how long a plan of vc-scheduler holds its cards without a Binding.
        publish: vocabularies whose extended resources are written to the status of nodes, where no
            device plugin does it.
        node_lock: ``auto`` takes the lock by which MetaX's device plugin learns whom it serves, on
            nodes that the plugin describes, unless ``metax`` is published; ``never`` leaves it.
        required_plugin: name of the node agent as an NRI plugin, by which pods are marked so that
            containerd 2.2 creates no container with a share while it is away; empty for no mark.
        peer_metrics: whether cards are told under the names of HAMi's and Volcano's metrics too.
        policy: for pods that do not say themselves.
        log: what is written.
    """

    listen: Annotated[str, Field(pattern=ADDRESS)] = "127.0.0.1:9595"
    tls: Tls | None = None
    grpc: Annotated[str, Field(pattern=r"^(auto|off|unix:.+|\S+:[0-9]{1,5})$"), _WORD] = "auto"
    grpc_tls: GrpcTls | None = None
    store: Annotated[str, Field(pattern=r"^(memory|sqlite:.+|kubernetes)$")] = "sqlite:dragoman.db"
    kubeconfig: Path | None = None
    namespace: Annotated[str, Field(min_length=1)] = "dragoman-system"
    hold_seconds: Annotated[int, Field(ge=1, le=3600)] = 30
    publish: Annotated[tuple[_DialectName, ...], _LISTED] = ()
    node_lock: Literal["auto", "never"] = "auto"
    required_plugin: Annotated[str, Field(pattern=r"^[A-Za-z0-9._+-]*$")] = ""
    peer_metrics: bool = True
    policy: PolicySettings = PolicySettings()
    log: Log = Log()

    @model_validator(mode="after")
    def _proof_of_who_asks(self) -> "Settings":
        """Whoever can reach the gRPC port gives cards away: from elsewhere with a certificate."""
        on_port = self.grpc not in ("auto", "off") and not self.grpc.startswith(UNIX)
        if self.grpc_tls is None and on_port and not is_local(self.grpc):
            told = "is reached from other machines: set grpcTls, or listen on a loopback address"
            raise ValueError(f"grpc: {self.grpc!r}: {told}")
        if self.grpc_tls is not None and not on_port:
            raise ValueError(
                f"grpcTls: grpc: {self.grpc!r}: must be HOST:PORT where grpcTls is set"
            )
        return self

    @model_validator(mode="after")
    def _managed_in_a_cluster(self) -> "Settings":
        """Where there is no cluster there is no Secret."""
        if self.tls is not None and self.tls.managed is not None and self.store != "kubernetes":
            raise ValueError("tls.managed: needs store: kubernetes")
        return self

    @model_validator(mode="before")
    @classmethod
    def _no_gap(cls, data: object) -> object:
        """A section that stands there empty is one with its defaults."""
        if not isinstance(data, Mapping):
            return data
        return {key: value for key, value in data.items() if value is not None}


def address(listen: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``."""
    host, _, port = listen.rpartition(":")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - the operator left it empty


def is_local(listen: str) -> bool:
    """Whether ``HOST:PORT`` is reached from this machine alone."""
    host = listen.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read(file: Path | None, environment: Mapping[str, str] | None = None) -> Settings:
    """The settings of a file, with those of the environment over them.

    Args:
        file: YAML; None for the defaults.
        environment: such as ``DRAGOMAN_HOLDSECONDS`` and ``DRAGOMAN_POLICY_NODE``, in any case of
            the key; the process's own, where None.

    Raises:
        SettingsError: the file cannot be read, or a value cannot be meant.
    """
    found = {} if file is None else _parsed(file)
    variables = os.environ if environment is None else environment
    for name, value in variables.items():
        if name.startswith(PREFIX):
            _set(found, name, value)
    try:
        return Settings.model_validate(found)
    except ValidationError as error:
        raise SettingsError("; ".join(map(_sentence, _details(error)))) from error


def _parsed(file: Path) -> dict[str, object]:
    try:
        found = yaml.safe_load(file.read_bytes())
    except OSError as error:
        raise SettingsError(f"{file}: cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"{file}: is not YAML: {error}") from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise SettingsError(f"{file}: must be a mapping of settings")
    return found


def _set(found: dict[str, object], name: str, value: str) -> None:
    """Put a variable's value at the key that it names."""
    section: dict[str, object] = found
    model: type[Section] = Settings
    steps = name.removeprefix(PREFIX).lower().split("_")
    for place, step in enumerate(steps):
        keys = {_alias(model, key).lower(): key for key in model.model_fields}
        if step not in keys:
            known = ", ".join(PREFIX + key.upper() for key in keys) if place == 0 else ""
            raise SettingsError(
                f"{name}: there is no such setting{known and f'; there is {known}'}"
            )
        field = model.model_fields[keys[step]]
        alias = _alias(model, keys[step])
        inner = _section(field.annotation)
        if inner is None or place == len(steps) - 1:
            if inner is not None or place < len(steps) - 1:
                raise SettingsError(f"{name}: does not name one value")
            section[alias] = value
            return
        below = section.get(alias)
        section[alias] = section = dict(below) if isinstance(below, dict) else {}
        model = inner


def _alias(model: type[Section], field: str) -> str:
    return model.model_fields[field].alias or field


def _section(annotation: object) -> type[Section] | None:
    for found in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(found, type) and issubclass(found, Section):
            return found
    return None


def _details(error: ValidationError) -> list[tuple[str, object, str]]:
    return [
        (".".join(map(str, detail["loc"])), detail["input"], detail["msg"])
        for detail in error.errors(include_url=False)
    ]


def _sentence(detail: tuple[str, object, str]) -> str:
    key, value, problem = detail
    if isinstance(value, Mapping):  # of the section as a whole: its problem names the keys
        return f"{key}: {problem.removeprefix('Value error, ')}" if key else problem
    return f"{key}: {value!r}: {problem[:1].lower()}{problem[1:]}"
