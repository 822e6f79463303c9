"""Lines and tables of a page."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.cli.output.page import (
    Spans,
    TextColumn,
    TextPage,
    column_widths,
    fold,
    lines,
    span,
)

words = st.text("ab \n", max_size=30)
cells = st.lists(st.tuples(words, st.sampled_from(["", "red"])), max_size=3).map(tuple)


def written(width: int | None = None) -> tuple[TextPage, list[str]]:
    lines: list[str] = []
    return TextPage(lines.append, width), lines


def text_of(spans: Spans) -> str:
    return "".join(text for text, _ in spans)


@given(cells, st.integers(1, 12))
def test_folding_keeps_all_but_blanks_and_line_breaks(cell: Spans, width: int) -> None:
    lines = [text_of(line) for line in fold(cell, width)]

    assert all(len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == "".join(text_of(cell).split())


@given(cells)
def test_without_a_width_only_line_breaks_end_lines(cell: Spans) -> None:
    assert [text_of(line) for line in fold(cell, None)] == text_of(cell).split("\n")


@given(st.lists(st.lists(cells, min_size=3, max_size=3), max_size=5), st.integers(9, 40))
def test_a_table_keeps_to_its_width_and_has_no_blanks_at_the_end_of_a_line_of_words(
    rows: list[list[Spans]], width: int
) -> None:
    page, shown = written(width)

    page.table((TextColumn(), TextColumn(right=True), TextColumn(folds=False)), rows)

    assert all(len(line.removesuffix("\n")) <= width for line in shown)


def test_the_widest_column_that_folds_gives_way_first() -> None:
    columns = (TextColumn(), TextColumn(least=5), TextColumn(folds=False))
    rows = [[span("a" * 9), span("b" * 7), span("c" * 12)]]

    assert column_widths(columns, rows, None) == [9, 7, 12]
    assert column_widths(columns, rows, 25) == [6, 7, 12]
    assert column_widths(columns, rows, 19) == [2, 5, 12]
    assert column_widths(columns, rows, 12) == [1, 5, 6]


def test_cells_of_several_lines_stay_in_their_column() -> None:
    page, shown = written()

    page.table((TextColumn(),) * 3, [[span("a"), lines(("b", "ccc")), span("d")], [span("e")] * 3])

    assert shown == ["a  b    d\n", "   ccc\n", "e  e    e\n"]


def test_a_part_begins_with_a_blank_line_after_others() -> None:
    page, shown = written()

    page.part()
    page.line(span("first"))
    page.part()
    page.part()
    page.line(span("second"), indent=2)

    assert "".join(shown) == "first\n\n  second\n"


@pytest.mark.parametrize(
    ("text", "written_as"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\rb", "a\\rb"),
        ("a\tb", "a\\tb"),
        ("a\nb", "a\\nb"),
        ("a\x9bb", "a\\x9bb"),
        ("a\u202eb", "a\\u202eb"),
    ],
)
def test_foreign_text_is_written_with_escapes_and_counted_so(text: str, written_as: str) -> None:
    page, shown = written()

    page.line(span(text))
    page.table((TextColumn(), TextColumn()), [[span(text), span("x")], [span("b"), span("x")]])

    assert shown[0] == f"{written_as}\n"
    assert shown[1] == f"{written_as}  x\n"
    assert shown[2] == f"b{' ' * (len(written_as) + 1)}x\n"
