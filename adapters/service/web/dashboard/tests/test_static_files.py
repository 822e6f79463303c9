"""The files of the dashboard: headers, digests, and the texts of both languages."""

import re
from importlib.resources import files

import pytest

from adapters.service.tests.builders import run
from adapters.service.web.app import Answer, Call
from adapters.service.web.dashboard.routes import FOREVER, KINDS, StaticFiles
from core.requests.reason import Cause

STATIC = StaticFiles()
FOLDER = files("adapters.service.web.dashboard").joinpath("static")
SOURCES = {each.name: each.read_text() for each in FOLDER.iterdir() if each.is_file()}


def page() -> Answer:
    return run(STATIC.page(Call()))


def file(rest: str) -> Answer:
    return run(STATIC.file(Call(rest=rest)))


def test_the_page_allows_only_its_own_origin_and_no_frame() -> None:
    headers = dict(page().headers)

    policy = headers[b"content-security-policy"]
    assert b"default-src 'none'" in policy
    assert b"frame-ancestors 'none'" in policy
    assert b"unsafe" not in policy
    assert headers[b"x-frame-options"] == b"DENY"
    assert headers[b"referrer-policy"] == b"no-referrer"
    assert headers[b"cache-control"] == b"private, no-cache"


def test_the_page_names_its_files_by_relative_paths_with_the_digest() -> None:
    named = re.findall(rb'(?:src|href)="([^"#]+)"', page().body)

    assert len(named) == 7
    for path in named:
        prefix = f"static/{STATIC.digest}/".encode()
        assert path.startswith(prefix)
        assert file(path.removeprefix(b"static/").decode()).status == 200


def test_a_file_is_kept_forever_only_below_its_own_digest() -> None:
    own, other = file(f"{STATIC.digest}/main.js"), file("0123456789abcdef/main.js")

    assert FOREVER in own.headers
    assert own.kind == KINDS[".js"]
    assert other.body == own.body
    assert FOREVER not in other.headers


@pytest.mark.parametrize("rest", ["", "main.js", "x/none.js", "x/../main.js", "x/index.html", "x/"])
def test_no_other_file_is_served(rest: str) -> None:
    assert file(rest).status == 404


def test_no_file_names_another_host_or_parses_html() -> None:
    for name, text in SOURCES.items():
        outside = re.sub(r'"http://www\.w3\.org/2000/svg"', "", text)
        assert not re.search(
            r"https?://|innerHTML|insertAdjacentHTML|document\.write|eval\(", outside
        ), name


def test_every_module_that_is_imported_exists_and_is_small() -> None:
    for name, text in SOURCES.items():
        for imported in re.findall(r'from "\./([^"]+)"', text):
            assert imported in SOURCES, f"{name} imports {imported}"
        assert len(text.splitlines()) <= 200, name


def texts(language: str) -> dict[str, str]:
    pairs = re.findall(r'(\w+): "((?:[^"\\]|\\.)*)"', SOURCES[f"{language}.js"])
    assert len(pairs) == len(dict(pairs)), "a key is repeated"
    return dict(pairs)


def test_both_languages_have_the_same_texts_with_the_same_values() -> None:
    english, chinese = texts("en"), texts("zh")

    assert english.keys() == chinese.keys()
    for key, text in english.items():
        assert sorted(re.findall(r"\{(\w+)", text)) == sorted(
            re.findall(r"\{(\w+)", chinese[key])
        ), key


def test_every_cause_has_its_chinese() -> None:
    causes = re.findall(r'^  "([^"]+)":', SOURCES["reasons.js"], re.MULTILINE)

    assert sorted(causes) == sorted(cause.value for cause in Cause)


def test_every_text_is_used_and_every_used_text_exists() -> None:
    modules = "".join(text for name, text in SOURCES.items() if name not in ("en.js", "zh.js"))
    known = texts("en")

    for key in re.findall(r'\bt\("(\w+)"', modules):
        assert key in known
    for key in known:
        assert re.search(rf'"{key}"', modules), f"{key} is used nowhere"


def test_the_whole_page_is_smaller_than_150_kib() -> None:
    folder = files("adapters.service.web.dashboard").joinpath("static")

    assert sum(len(each.read_bytes()) for each in folder.iterdir()) < 150 * 1024
