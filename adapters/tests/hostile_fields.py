"""The fields that a form has, and objects with a hostile value in one of them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import inspect

FieldPath = tuple[str | int, ...]

_PLACE = "@@hostile@@"


def fields(
    form: inspect.Type, encoded: Mapping[str, type], at: FieldPath = ()
) -> Iterator[FieldPath]:
    """The paths of all fields that are read.

    Args:
        form: of an object.
        encoded: what its encoded fields are decoded to, by their path.
        at: path of the form.
    """
    if isinstance(form, inspect.StructType):
        for each in form.fields:
            path, inner = (*at, each.encode_name), each.type
            if ".".join(map(str, path)) in encoded:
                inner = inspect.type_info(encoded[each.encode_name])
            assert not isinstance(inner, inspect.RawType), f"{each.name}: what is it decoded to?"
            yield path
            yield from fields(inner, encoded, path)
    elif isinstance(form, inspect.UnionType):
        for one in form.types:
            yield from fields(one, encoded, at)
    elif isinstance(form, inspect.DictType):
        yield (*at, "k")
        yield from fields(form.value_type, encoded, (*at, "k"))
    elif isinstance(form, inspect.VarTupleType | inspect.ListType):
        yield (*at, 0)
        yield from fields(form.item_type, encoded, (*at, 0))


def with_value(thing: Any, path: FieldPath, value: bytes) -> bytes:
    """The JSON of an object with a value, in JSON too, at a path; what is missing is made."""
    return json.dumps(_placed(thing, path)).encode().replace(f'"{_PLACE}"'.encode(), value)


def _placed(thing: Any, path: FieldPath) -> Any:
    if not path:
        return _PLACE
    step, *rest = path
    if step == 0:
        first, *others = thing or [None]
        return [_placed(first, tuple(rest)), *others]
    return {**(thing or {}), step: _placed((thing or {}).get(step), tuple(rest))}
