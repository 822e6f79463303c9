"""Dragoman's own record of an allocation, for what the record of an ecosystem cannot express.

A dialect writes it beside the ecosystem's own annotation where that does not say which container
has which share. Where it exists, dialects read it instead of the ecosystem's annotation.
"""

from dataclasses import replace

import msgspec

from adapters.dialects.choice_amounts import ChoiceError, SliceError, restate
from adapters.dialects.dialect import DialectError, Result, UnclearRecord
from adapters.wire.decode.decoder import Decoder, UnreadableError
from adapters.wire.kube import Pod, annotations
from adapters.wire.records.grant import GrantRecord, grant_record, read_grant
from core.hardware.node import Node
from core.requests.grant import Grant
from core.requests.request import Request

KEY = "dragoman.dev/allocation"

MARK = "DRAGOMAN_SHARE"
"""Admission sets this variable in each container that requests a share; any value will do."""

_decoder = Decoder(list[GrantRecord])


def encode(grants: tuple[Grant, ...]) -> str:
    """Write grants as compact JSON."""
    return msgspec.json.encode([grant_record(each) for each in grants]).decode()


def decode(text: str) -> tuple[Grant, ...]:
    """Read the grants of an encoded text.

    Raises:
        DialectError: the text is not such a record.
    """
    try:
        return tuple(map(read_grant, _decoder.decode(text)))
    except UnreadableError as error:
        raise DialectError(
            f"metadata.annotations[{KEY}]", text, f"cannot be parsed: {error}"
        ) from None


def update(pod: Pod, result: Result, grants: tuple[Grant, ...]) -> Result:
    """The result with a record of these grants, if the pod has a record that the result leaves.

    An earlier record that stays on the pod would be read in place of the result.
    """
    if KEY not in annotations(pod) or KEY in result.annotations:
        return result
    return replace(result, annotations={**result.annotations, KEY: encode(grants)})


def read(text: str, request: Request, node: Node) -> tuple[Grant, ...]:
    """The cards and slices that a record names, with the amounts of the request.

    Raises:
        DialectError: the text is no such record, or the request or the node contradicts it.
        UnclearRecord: the node contradicts a slice only.
    """
    field, choice = f"metadata.annotations[{KEY}]", decode(text)
    try:
        return restate(request, choice, node)
    except SliceError as error:
        raise UnclearRecord(field, text, str(error), (each.card for each in choice)) from None
    except ChoiceError as error:
        raise DialectError(field, text, str(error)) from None
