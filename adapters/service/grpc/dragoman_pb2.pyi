from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Pod(_message.Message):
    __slots__ = ("namespace", "name", "uid")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    uid: str
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ...) -> None: ...

class AllocateRequest(_message.Message):
    __slots__ = ("pod", "nodes", "bind")
    POD_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    BIND_FIELD_NUMBER: _ClassVar[int]
    pod: Pod
    nodes: _containers.RepeatedScalarFieldContainer[str]
    bind: bool
    def __init__(self, pod: _Optional[_Union[Pod, _Mapping]] = ..., nodes: _Optional[_Iterable[str]] = ..., bind: _Optional[bool] = ...) -> None: ...

class AllocateResponse(_message.Message):
    __slots__ = ("node", "grants", "annotations", "labels", "attempt", "bound")
    class AnnotationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    node: str
    grants: _containers.RepeatedCompositeFieldContainer[Grant]
    annotations: _containers.ScalarMap[str, str]
    labels: _containers.ScalarMap[str, str]
    attempt: int
    bound: bool
    def __init__(self, node: _Optional[str] = ..., grants: _Optional[_Iterable[_Union[Grant, _Mapping]]] = ..., annotations: _Optional[_Mapping[str, str]] = ..., labels: _Optional[_Mapping[str, str]] = ..., attempt: _Optional[int] = ..., bound: _Optional[bool] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("container", "card", "memory", "compute", "exclusive", "mig_profile", "mig_start")
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    MIG_PROFILE_FIELD_NUMBER: _ClassVar[int]
    MIG_START_FIELD_NUMBER: _ClassVar[int]
    container: str
    card: str
    memory: int
    compute: int
    exclusive: bool
    mig_profile: str
    mig_start: int
    def __init__(self, container: _Optional[str] = ..., card: _Optional[str] = ..., memory: _Optional[int] = ..., compute: _Optional[int] = ..., exclusive: _Optional[bool] = ..., mig_profile: _Optional[str] = ..., mig_start: _Optional[int] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("uid", "node", "attempt")
    UID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    uid: str
    node: str
    attempt: int
    def __init__(self, uid: _Optional[str] = ..., node: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ("released",)
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    released: bool
    def __init__(self, released: _Optional[bool] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("pod", "manifest")
    POD_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    pod: Pod
    manifest: bytes
    def __init__(self, pod: _Optional[_Union[Pod, _Mapping]] = ..., manifest: _Optional[bytes] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("dialect", "summary", "best", "fits", "refused", "preemption_may_help", "notes")
    class RefusedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    BEST_FIELD_NUMBER: _ClassVar[int]
    FITS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_MAY_HELP_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    dialect: str
    summary: str
    best: str
    fits: _containers.RepeatedScalarFieldContainer[str]
    refused: _containers.ScalarMap[str, str]
    preemption_may_help: _containers.RepeatedScalarFieldContainer[str]
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, dialect: _Optional[str] = ..., summary: _Optional[str] = ..., best: _Optional[str] = ..., fits: _Optional[_Iterable[str]] = ..., refused: _Optional[_Mapping[str, str]] = ..., preemption_may_help: _Optional[_Iterable[str]] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class ListCardsRequest(_message.Message):
    __slots__ = ("node", "page_size", "page_token")
    NODE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    node: str
    page_size: int
    page_token: str
    def __init__(self, node: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListCardsResponse(_message.Message):
    __slots__ = ("cards", "next_page_token")
    CARDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    cards: _containers.RepeatedCompositeFieldContainer[Card]
    next_page_token: str
    def __init__(self, cards: _Optional[_Iterable[_Union[Card, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Card(_message.Message):
    __slots__ = ("node", "uuid", "index", "vendor", "model", "mode", "healthy", "dialects", "memory", "used_memory", "used_compute", "slots", "used_slots", "sharers", "compute")
    NODE_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    VENDOR_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    DIALECTS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    USED_MEMORY_FIELD_NUMBER: _ClassVar[int]
    USED_COMPUTE_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    USED_SLOTS_FIELD_NUMBER: _ClassVar[int]
    SHARERS_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_FIELD_NUMBER: _ClassVar[int]
    node: str
    uuid: str
    index: int
    vendor: str
    model: str
    mode: str
    healthy: bool
    dialects: _containers.RepeatedScalarFieldContainer[str]
    memory: int
    used_memory: int
    used_compute: int
    slots: int
    used_slots: int
    sharers: _containers.RepeatedCompositeFieldContainer[Sharer]
    compute: int
    def __init__(self, node: _Optional[str] = ..., uuid: _Optional[str] = ..., index: _Optional[int] = ..., vendor: _Optional[str] = ..., model: _Optional[str] = ..., mode: _Optional[str] = ..., healthy: _Optional[bool] = ..., dialects: _Optional[_Iterable[str]] = ..., memory: _Optional[int] = ..., used_memory: _Optional[int] = ..., used_compute: _Optional[int] = ..., slots: _Optional[int] = ..., used_slots: _Optional[int] = ..., sharers: _Optional[_Iterable[_Union[Sharer, _Mapping]]] = ..., compute: _Optional[int] = ...) -> None: ...

class Sharer(_message.Message):
    __slots__ = ("pod", "uid", "dialect", "memory", "compute", "state", "blocking")
    POD_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    BLOCKING_FIELD_NUMBER: _ClassVar[int]
    pod: str
    uid: str
    dialect: str
    memory: int
    compute: int
    state: str
    blocking: bool
    def __init__(self, pod: _Optional[str] = ..., uid: _Optional[str] = ..., dialect: _Optional[str] = ..., memory: _Optional[int] = ..., compute: _Optional[int] = ..., state: _Optional[str] = ..., blocking: _Optional[bool] = ...) -> None: ...

class WatchLedgerRequest(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, nodes: _Optional[_Iterable[str]] = ...) -> None: ...

class LedgerChange(_message.Message):
    __slots__ = ("node", "version", "cards", "gone", "problem", "synced")
    NODE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CARDS_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    SYNCED_FIELD_NUMBER: _ClassVar[int]
    node: str
    version: int
    cards: _containers.RepeatedCompositeFieldContainer[Card]
    gone: bool
    problem: str
    synced: bool
    def __init__(self, node: _Optional[str] = ..., version: _Optional[int] = ..., cards: _Optional[_Iterable[_Union[Card, _Mapping]]] = ..., gone: _Optional[bool] = ..., problem: _Optional[str] = ..., synced: _Optional[bool] = ...) -> None: ...
