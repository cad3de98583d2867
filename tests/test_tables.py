"""The table renderer."""

from cadmus.tables import code, counted, escape, markdown, plain

HEADER = ["name", "rate"]
ROWS = [["a|b", "5 %"], ["`|`", "1.50"]]


def test_terminal_columns_are_aligned_and_numbers_stay_text() -> None:
    assert plain(HEADER, ROWS).splitlines() == ["name  rate", "a|b   5 %", "`|`   1.50"]
    assert plain(HEADER, ROWS, numbers=True).splitlines() == ["name  rate", "a|b    5 %", "`|`   1.50"]
    assert plain(HEADER, []) == "name  rate"


def test_markdown_cells_are_not_padded() -> None:
    assert markdown(HEADER, [["long enough", ""]]) == "| name | rate |\n| --- | --- |\n| long enough |  |\n"
    assert markdown(HEADER, []) == "| name | rate |\n| --- | --- |\n"


def test_markup_is_escaped() -> None:
    assert escape("a_b|c") == "a\\_b\\|c"
    assert escape("<b>a & b") == "&lt;b&gt;a &amp; b"
    assert escape("`<a>` <b>`") == "`<a>` &lt;b&gt;\\`"
    assert code("a_b|c") == escape("`a_b|c`") == "`a_b\\|c`"


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert plain(["a\x1b[2J"], [["\x07"]]).split() == [r"a\x1b[2J", r"\x07"]


def test_a_count_has_its_noun() -> None:
    assert [counted(number, "seed") for number in (0, 1, 2)] == ["0 seeds", "1 seed", "2 seeds"]
