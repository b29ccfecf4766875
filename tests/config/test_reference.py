from pathlib import Path

from config.reference import BEGIN, END, main, render, update

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_says_what_the_models_say():
    page = PAGE.read_text(encoding="utf-8")

    assert update(page) == page, "run: python -m config.reference docs/configuration.md"


def test_every_option_has_a_description():
    rows = [row for row in render().splitlines() if row.startswith("| `")]

    assert len(rows) > 40
    assert [row for row in rows if row.endswith("|  |")] == []


def test_an_old_page_is_made_anew_and_the_rest_of_it_is_kept(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nobsolete\n{END}\nafter\n")

    assert main([str(page)]) == 1
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "obsolete" not in text
    assert "`server.sip.timers`" in text
    assert main([str(page)]) == 0
