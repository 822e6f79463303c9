"""Texts that an author, a device plugin or a driver may write and no parser expects."""

DEEP = b'{"a":' * 1100 + b"1" + b"}" * 1100
BRACKETS = b"[" * 100_000 + b"]" * 100_000
LONG = "x" * 300_000
DIGITS = "9" * 5000

VALUES: dict[str, bytes] = {
    "deep objects": DEEP,
    "100,000 brackets": BRACKETS,
    "a number of 5,000 digits": DIGITS.encode(),
    "a number beyond a float": b"1e999999",
    "a number beyond 64 bits": str(1 << 64).encode(),
    "a negative one": str(-(1 << 63) - 1).encode(),
    "the largest number": str((1 << 63) - 1).encode(),
    "a fraction": b"0.1",
    "no UTF-8": b'"\xff\xfe"',
    "half a pair of surrogates": b'"\\ud800"',
    "the other half": b'{"\\udc00":"\\udc00"}',
    "null": b"null",
    "a list": b"[]",
    "a list of null": b"[null,null]",
    "lists in a list": b"[[[1]]]",
    "an object": b"{}",
    "a key twice": b'{"a":1,"a":{"b":null},"a":"x"}',
    "no text": b'""',
    "spaces": b'" \\t\\r\\n\\u0000\\u2028"',
    "a long text": f'"{LONG}"'.encode(),
    "true": b"true",
    "zero": b"0",
    "minus one": b"-1",
    "digits": f'"{DIGITS}"'.encode(),
    "an amount without end": f'"1e{DIGITS}"'.encode(),
}
"""JSON in place of the value of a field."""

_BOMB = "\n".join(
    ["x0: &x0 {a: 1, b: 2, c: 3, d: 4, e: 5, f: 6, g: 7, h: 8}"]
    + [f"x{n}: &x{n} {{<<: [{', '.join([f'*x{n - 1}'] * 10)}]}}" for n in range(1, 9)]
)
_LAUGHS = "\n".join(
    ["x0: &x0 [1, 2, 3, 4, 5, 6, 7, 8]"]
    + [f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]" for n in range(1, 12)]
    + ["tiers: *x11", "nvidia: *x11"]
)

TEXTS: dict[str, str] = {
    **{f"JSON: {name}": text.decode(errors="surrogateescape") for name, text in VALUES.items()},
    "JSON without an end": '{"a":' * 100_000,
    "no number": "NaN",
    "a merge bomb": _BOMB,
    "an alias bomb": _LAUGHS,
    "an alias inside of what it names": "a: &a [*a]",
    "a bool that is none": "!!bool foo",
    "an int without digits": "!!int ''",
    "a float without digits": "!!float +",
    "a time that is none": "!!timestamp foo",
    "a date that does not exist": "2001-99-99",
    "a large number in base 16": "0x" + "f" * 100_000,
    "a set": "tiers: !!set {a}\nnvidia: !!set {a}",
    "a mapping as a key": "? {a: 1}\n: 2",
    "an unknown tag": "!!python/object/apply:os.system [true]",
    "a name that is a list": (
        "tiers:\n- plugins:\n  - name: deviceshare\n"
        "    arguments: {deviceshare.KnownGeometriesCMName: [1]}"
    ),
    "a weight without end": (
        "tiers:\n- plugins:\n  - name: deviceshare\n"
        f"    arguments: {{deviceshare.ScheduleWeight: 0x{'f' * 10_000}}}"
    ),
    "separators": ",:;" * 30_000,
    "cards without end": "GPU-0,10,81920,NVIDIA-A100,true,hami-core:" * 5000,
    "fields that are empty": "GPU-0,,,,,:" * 20,
    "a card with digits": f"GPU-0,{DIGITS},{DIGITS},NVIDIA-A100,true,hami-core:",
    "signs": "-,+,-0,+1,٣,1_0,0x1,1e5:" * 10,
    "what backtracks": "a" * 50_000 + "!",
    "letters, digits, dashes": "a-1" * 30_000 + "\n",
    "spaces at the end": "1" + " " * 100_000 + "x",
    "brackets of an expression": "!(" * 50_000,
    "control characters": "\x00\x01\x7f\x1b[2J\u202e\ufeff",
}
"""Content of an annotation, a label or a file; JSON, YAML and lists of every component."""
