"""The settings of the service: one YAML file, overridden by the environment."""

import difflib
import ipaddress
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, LiteralString, get_args

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict

from adapters.dialects import registry
from adapters.dialects.dialect import Defaults, SchedulingPolicy
from adapters.service.settings.sections import (
    ADDRESS,
    FORMS,
    GRPC,
    SPLIT_AT_COMMAS,
    STORE,
    DraSettings,
    GrpcTls,
    LimitSettings,
    MovesSettings,
    PreemptionSettings,
    Section,
    Tls,
    WebSettings,
)
from adapters.wire.decode.yaml_decoding import FAILURES

UNIX = "unix:"
"""Prefix of the path of a Unix socket."""

PREFIX = "DRAGOMAN_"
"""Prefix of every variable; the key follows in capitals, with ``_`` between its parts."""

_OFF = BeforeValidator(lambda value: "off" if value is False else value)
"""YAML reads the word off as a boolean."""


def _one_of(kind: LiteralString, names: Callable[[], Collection[str]]) -> AfterValidator:
    """Return a check that a dialect of some kind has this name."""

    def check(name: str) -> str:
        if name not in names():
            listed = {"names": ", ".join(names())}
            raise PydanticCustomError(kind, "Input should be one of {names}", listed)
        return name

    return AfterValidator(check)


_DialectName = Annotated[str, _one_of("dialect", registry.names)]
_MirrorName = Annotated[str, _one_of("mirror", registry.mirror_targets)]
_NamespaceName = Annotated[str, Field(min_length=1)]


class SettingsError(ValueError):
    """An invalid setting; the text names its key, its value and what would be valid."""


class PolicySettings(Section):
    """Placement of pods that do not choose it themselves; applied without a restart.

    Attributes:
        node: ``binpack`` or ``spread``, in place of each dialect's own default.
        card: the same for the cards of a node.
        topology_aware: whether links count in the choice of the node.
    """

    node: SchedulingPolicy | None = None
    card: SchedulingPolicy | None = None
    topology_aware: bool | None = None

    def defaults(self) -> Defaults:
        """Return the settings as a value of the dialects' type."""
        return Defaults(self.node, self.card, self.topology_aware)


class Log(Section):
    """The log on standard error.

    Attributes:
        level: the lowest level that is written.
        format: ``json`` for machines, ``text`` for people.
    """

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "text"] = "json"


class Settings(Section):
    """All settings of the service.

    Attributes:
        listen: ``HOST:PORT`` of the HTTP port.
        tls: its certificate; None for plaintext.
        grpc: where the gRPC server listens: ``auto`` for a socket in the runtime directory if one
            can be made there, ``unix:PATH``, ``HOST:PORT``, or ``off``.
        grpc_tls: certificates of a gRPC port; without it the port must be on a loopback address.
        store: where the ledgers are: ``memory``, ``sqlite:PATH`` or ``kubernetes``.
        kubeconfig: file with the API server's address and credentials; None for the pod's own
            service account, and outside of a pod for the files that kubectl reads.
        namespace: namespace of the reconciler's Lease.
        scheduler_namespaces: namespaces of schedulers and device plugins, whose ConfigMaps are
            their settings; those elsewhere are ignored. The first one that has a file counts.
        hami_device_config: name of the ConfigMap with HAMi's device configuration, which has the
            name of HAMi's release.
        hold_seconds: seconds for which vc-scheduler's plan reserves cards without a Binding.
        publish: dialects whose extended resources the service writes to the status of nodes, where
            no device plugin does it.
        mirrors: dialects whose records pods of other dialects get too, so that the device plugins
            of their schedulers count what these pods have.
        node_lock: ``auto`` takes the lock that names to MetaX's device plugin the pod being bound,
            on nodes that the plugin describes, unless ``metax`` is published; ``never`` does not.
        confirm_stop: ``always``: a pod that was deleted by force keeps its cards until an agent
            confirms that its containers have stopped, or until its grace period is over;
            ``agents``: only on nodes whose agent reports, elsewhere they are free at once.
        required_plugin: name of the node agent as an NRI plugin. Admission requires it in an
            annotation, and containerd 2.2 then creates no container with a share while the agent
            is away; empty for no annotation.
        peer_metrics: whether cards are exported under the names of HAMi's and Volcano's metrics
            too, which are three quarters of all series.
        card_metrics: ``leader``: of several replicas, only the one that holds the reconciler's
            Lease exports the metrics of cards; ``always``: each does.
        agent_port: port of the node agents' metrics. The dashboard asks the agents of the nodes
            that a person looks at what is used; None for not asking them.
        limits: of the HTTP ports.
        hosts: names by which browsers reach the service over a loopback address, where a proxy
            that keeps them runs beside it. Others are refused there, as a page of any site could
            have them; addresses, and names that no public name server knows, are not.
        web: what people ask for.
        policy: placement of pods that do not choose it themselves.
        dra: Dynamic Resource Allocation.
        preemption: evictions by the service.
        moves: plans of moves.
        log: the log on standard error.
    """

    listen: Annotated[str, Field(pattern=ADDRESS)] = "127.0.0.1:9595"
    tls: Tls | None = None
    grpc: Annotated[str, Field(pattern=GRPC), _OFF] = "auto"
    grpc_tls: GrpcTls | None = None
    store: Annotated[str, Field(pattern=STORE)] = "sqlite:dragoman.db"
    kubeconfig: Path | None = None
    namespace: Annotated[str, Field(min_length=1)] = "dragoman-system"
    scheduler_namespaces: Annotated[tuple[_NamespaceName, ...], SPLIT_AT_COMMAS] = (
        "kube-system",
        "volcano-system",
        "koordinator-system",
        "hami-system",
    )
    hami_device_config: Annotated[str, Field(pattern=r"^[a-z0-9.-]+$")] = "hami-scheduler-device"
    hold_seconds: Annotated[int, Field(ge=1, le=3600)] = 30
    publish: Annotated[tuple[_DialectName, ...], SPLIT_AT_COMMAS] = ()
    mirrors: Annotated[tuple[_MirrorName, ...], SPLIT_AT_COMMAS] = ()
    node_lock: Literal["auto", "never"] = "auto"
    confirm_stop: Literal["always", "agents"] = "always"
    required_plugin: Annotated[str, Field(pattern=r"^[A-Za-z0-9._+-]*$")] = ""
    peer_metrics: bool = False
    card_metrics: Literal["leader", "always"] = "leader"
    agent_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    limits: LimitSettings = LimitSettings()
    hosts: Annotated[tuple[str, ...], SPLIT_AT_COMMAS] = ()
    web: WebSettings = WebSettings()
    policy: PolicySettings = PolicySettings()
    dra: DraSettings = DraSettings()
    preemption: PreemptionSettings = PreemptionSettings()
    moves: MovesSettings = MovesSettings()
    log: Log = Log()

    @model_validator(mode="after")
    def _remote_clients_have_certificates(self) -> "Settings":
        """Check that a remote client of gRPC has a certificate: it can allocate cards."""
        on_port = self.grpc not in ("auto", "off") and not self.grpc.startswith(UNIX)
        if self.grpc_tls is None and on_port and not is_local(self.grpc):
            problem = "is reached from other machines: set grpcTls, or listen on a loopback address"
            raise ValueError(f"grpc: {self.grpc!r}: {problem}")
        if self.grpc_tls is not None and not on_port:
            raise ValueError(
                f"grpcTls: grpc: {self.grpc!r}: must be HOST:PORT where grpcTls is set"
            )
        return self

    @model_validator(mode="after")
    def _managed_in_a_cluster(self) -> "Settings":
        """Check that a Secret, and who reviews tokens, has a cluster."""
        if self.web.authorize and self.store != "kubernetes":
            raise ValueError("web.authorize: needs store: kubernetes")
        if self.tls is not None and self.tls.managed is not None and self.store != "kubernetes":
            raise ValueError("tls.managed: needs store: kubernetes")
        return self

    @model_validator(mode="before")
    @classmethod
    def _empty_is_default(cls, data: object) -> object:
        """Give a key without a value, such as ``tls:``, its default."""
        if not isinstance(data, Mapping):
            return data
        return {key: value for key, value in data.items() if value is not None}


def is_local(listen: str) -> bool:
    """Return whether ``HOST:PORT`` can be reached only from this machine."""
    host = listen.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Variables(Settings, BaseSettings):
    """The settings as pydantic-settings looks for them in the environment."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_prefix_target="all",
        env_nested_delimiter="_",
        # A list is a text with commas here, which the field splits, and not JSON.
        enable_decoding=False,
        # Python's names would be a second key of the same value.
        populate_by_name=False,
    )


class SettingsFile:
    """One YAML file.

    Attributes:
        content: the mapping; empty for an empty file.
    """

    def __init__(self, path: Path) -> None:
        """Read it.

        Raises:
            SettingsError: it cannot be read, or is no mapping; the text names file and line.
        """
        self._path = path
        try:
            content = path.read_bytes()
            self._root = yaml.compose(content, yaml.SafeLoader)
            document = yaml.safe_load(content)
        except OSError as error:
            raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
        except FAILURES as error:
            text = f"{path}: is not YAML: {' '.join(str(error).split())}"
            if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
                text = f"{path}:{error.problem_mark.line + 1}: is not YAML: {error.problem}"
            raise SettingsError(text) from error
        if document is not None and not isinstance(document, dict):
            raise SettingsError(f"{path}: must be a mapping of settings")
        self.content: dict[str, object] = document or {}

    def place(self, keys: Sequence[int | str]) -> str:
        """``FILE:LINE: `` of a key, by its path; empty where the file does not have it."""
        node, line = self._root, 0
        for key in keys:
            if isinstance(node, yaml.SequenceNode) and isinstance(key, int):
                node = node.value[key]
                line = node.start_mark.line + 1
                continue
            pairs = node.value if isinstance(node, yaml.MappingNode) else ()
            found = next(((name, value) for name, value in pairs if name.value == key), None)
            if found is None:
                return ""
            line, node = found[0].start_mark.line + 1, found[1]
        return f"{self._path}:{line}: " if line else f"{self._path}: "


def _merge(document: Mapping[str, object], overrides: Mapping[str, object]) -> dict[str, object]:
    """Return the document with the overrides in it, section by section."""
    merged = dict(document)
    for key, value in overrides.items():
        section = merged.get(key)
        if isinstance(value, Mapping):
            merged[key] = _merge(section if isinstance(section, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def _variables(model: type[BaseModel], prefix: str) -> Iterator[str]:
    """Yield the variable of each value of a model, sections included."""
    for name, field in model.model_fields.items():
        variable = f"{prefix}{field.alias or name}".upper()
        section = _section(field.annotation)
        if section is None:
            yield variable
        else:
            yield from _variables(section, f"{variable}_")


def _section(annotation: object) -> type[BaseModel] | None:
    """Return the model of a field that is a section, such as ``Tls | None``."""
    for each in (annotation, *get_args(annotation)):
        if isinstance(each, type) and issubclass(each, BaseModel):
            return each
    return None


_PORT = re.compile(r"[0-9]{1,5}").fullmatch
_PROTOCOL = re.compile(r"tcp|udp|sctp").fullmatch
_URL = re.compile(r"(tcp|udp|sctp)://\S+:[0-9]{1,5}").fullmatch


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


_LINKS: tuple[tuple[re.Pattern[str], Callable[[str], object]], ...] = tuple(
    (re.compile(rf"[A-Z0-9_]+_{ending}"), matches)
    for ending, matches in (
        ("SERVICE_HOST", _is_address),
        ("SERVICE_PORT(_[A-Z0-9_]+)?", _PORT),
        ("PORT(_[0-9]+_(TCP|UDP|SCTP))?", _URL),
        ("PORT_[0-9]+_(TCP|UDP|SCTP)_PROTO", _PROTOCOL),
        ("PORT_[0-9]+_(TCP|UDP|SCTP)_PORT", _PORT),
        ("PORT_[0-9]+_(TCP|UDP|SCTP)_ADDR", _is_address),
    )
)
"""How the name of a service link ends, and the form of its value."""


def is_service_link(name: str, value: str) -> bool:
    """Return whether the kubelet sets such a variable for a Service of the pod's namespace.

    It does so unless the pod has ``enableServiceLinks: false``; those of a Service ``dragoman``
    begin like our settings. Source: kubernetes/pkg/kubelet/envvars/envvars.go.

    The form of the value counts too: ``DRAGOMAN_PORT=9595`` is a mistaken setting,
    ``DRAGOMAN_PORT=tcp://10.96.0.7:9595`` is a service link.
    """
    return any(link.fullmatch(name) and matches(value) for link, matches in _LINKS)


def read(file: Path | None, environment: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of a file, overridden by those of the environment.

    Args:
        file: YAML; None for the defaults.
        environment: such as ``DRAGOMAN_HOLDSECONDS`` and ``DRAGOMAN_POLICY_NODE``, in any case of
            the key; the environment of this process, where None.

    Raises:
        SettingsError: the file cannot be read, a variable names no setting (a misspelled one must
            not start the service), or a value is invalid.
    """
    variables = os.environ if environment is None else environment
    found = None if file is None else SettingsFile(file)
    settable = frozenset(_variables(Settings, PREFIX))
    values: dict[str, str | None] = {}
    for name, value in variables.items():
        if not name.startswith(PREFIX):
            continue
        if name.upper() in settable:
            values[name.lower()] = value
        elif not is_service_link(name, value):
            upper, known = name.upper(), sorted(settable)
            if within := [each for each in known if each.startswith(f"{upper}_")]:
                text = "is a section of the settings; set one of its values: " + ", ".join(within)
            else:
                similar = difflib.get_close_matches(upper, known) or known
                text = f"there is no such setting; there is {', '.join(similar)}"
            raise SettingsError(f"{name}: {text}")
    source = EnvSettingsSource(_Variables)
    source.env_vars = values
    try:
        return Settings.model_validate(_merge({} if found is None else found.content, source()))
    except ValidationError as error:
        texts: list[str] = []
        for each in error.errors(include_url=False):
            variable = PREFIX + "_".join(map(str, each["loc"])).upper()
            is_set = any(name.upper() == variable for name in variables)
            place = "" if found is None or is_set else found.place(each["loc"])
            texts.append(f"{place}{_sentence(each)}")
        raise SettingsError("; ".join(texts)) from error


def _sentence(error: ErrorDetails) -> str:
    key, value, problem = ".".join(map(str, error["loc"])), error["input"], error["msg"]
    if error["type"] == "extra_forbidden":
        model: type[BaseModel] = Settings
        for part in error["loc"][:-1]:
            fields = model.model_fields.values()
            sections = (_section(each.annotation) for each in fields if each.alias == part)
            model = next(filter(None, sections), model)
        known = sorted(each.alias or name for name, each in model.model_fields.items())
        return f"unknown key {key}; known: {', '.join(known)}"
    if error["type"] == "string_pattern_mismatch":
        problem = FORMS.get(error.get("ctx", {}).get("pattern", ""), problem)
    if isinstance(value, Mapping):  # a problem of the section as a whole names the keys itself
        return f"{key}: {problem.removeprefix('Value error, ')}" if key else problem
    return f"{key}: {value!r}: {problem[:1].lower()}{problem[1:]}"
