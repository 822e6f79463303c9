"""Plain values as JSON and YAML, in which no character is written that is not printable."""

import orjson
import yaml

from adapters.wire.visible import escaped


def as_json(plain: object) -> str:
    """Indented JSON with a newline at the end."""
    return f"{encoded(plain).decode()}\n"


def encoded(plain: object) -> bytes:
    """Indented JSON."""
    found = orjson.dumps(plain, option=orjson.OPT_INDENT_2)
    if found.isascii() and b"\x7f" not in found:
        return found
    return escaped(found.decode()).encode()


def as_yaml(plain: object) -> str:
    """YAML, in the order of the keys; long texts stay on one line."""
    text = _dumped(plain, as_it_is=True)
    if all(line.isprintable() for line in text.split("\n")):
        return text
    return _dumped(plain, as_it_is=False)


def _dumped(plain: object, *, as_it_is: bool) -> str:
    """YAML, in which each character beyond ASCII is an escape or as it is."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(
        plain, Dumper=dumper, sort_keys=False, allow_unicode=as_it_is, width=1 << 20
    )
    return text
