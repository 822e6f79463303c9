"""The table of settings in docs/reference/service.md is that of the code."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from adapters.service.settings.settings import Settings

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "service.md"


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    kinds = (field.annotation, *get_args(field.annotation))
    models = (each for each in kinds if isinstance(each, type) and issubclass(each, BaseModel))
    return next(models, None)


def shown(field: FieldInfo) -> str:
    """A default as the page shows it; empty where there is none, or None."""
    value = None if field.is_required() else field.default
    if value is None:
        return ""
    if isinstance(value, tuple):
        return f"`[{', '.join(value)}]`"
    return f"`{value or json.dumps(value)}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


def rows(model: type[BaseModel], above: str = "") -> Iterator[tuple[str, str]]:
    """Each key by its path, with its default."""
    for name, field in model.model_fields.items():
        key = f"{above}{field.alias or name}"
        section = section_of(field)
        if section is None:
            yield key, shown(field)
        else:
            yield from rows(section, f"{key}.")


def test_the_page_has_every_setting_with_its_default() -> None:
    table = PAGE.read_text().partition("\n## Settings\n")[2].partition("\n## ")[0]
    stated = re.findall(r"^\| `([\w.]+)` \| (`[^|]*`)? ?\| \S", table, re.MULTILINE)

    assert stated == [*rows(Settings)]
