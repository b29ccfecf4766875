from pathlib import PurePath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.store.documents import MAX_PASSAGE_CHARS, read_document


def read(text, name="handbook.md"):
    return read_document(PurePath(name), text)


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("a.md", "# Opening hours\n\nNine to five.", "Opening hours"),
        ("a.md", "Intro.\n\n# Opening   hours #\n", "Opening hours"),
        ("a.md", "## Not the title\n\ntext", "a"),
        ("price_list-2026.md", "no heading", "price list 2026"),
        ("price_list.txt", "# a text file has no headings", "price list"),
        ("deep/er/notes.txt", "x", "notes"),
        ("a.md", "```\n# a comment\n```\n", "a"),
        ("a.md", "# " + "x" * 500, "x" * 120),
    ],
)
def test_the_title_is_the_first_heading_or_the_file_s_name(name, text, title):
    assert read(text, name).title == title


def test_passages_end_where_a_heading_begins_and_know_it():
    document = read("# Shop\n\nWelcome.\n\n## Hours\n\nNine.\n\nFive.\n\n## Parking\n\nBehind.\n")

    assert [(passage.heading, passage.text) for passage in document.passages] == [
        ("Shop", "Welcome."),
        ("Hours", "Nine.\nFive."),
        ("Parking", "Behind."),
    ]


def test_a_long_paragraph_is_cut_between_sentences():
    sentence = "This sentence has some forty characters. "
    document = read(sentence * 60)

    assert len(document.passages) > 2
    assert all(passage.text.endswith(".") for passage in document.passages)


def test_a_document_without_text_has_a_title_and_no_passages():
    document = read("\n \n\n", "empty.txt")

    assert (document.title, document.passages) == ("empty", ())


def test_line_ends_of_every_system_are_read_alike():
    text = "# T\n\none\n\n## H\n\ntwo\n"

    assert read(text) == read(text.replace("\n", "\r\n")) == read(text.replace("\n", "\r"))


@given(st.text(max_size=3000), st.sampled_from(["a.md", "a.txt"]))
@settings(max_examples=100, deadline=None)
def test_any_text_is_split_into_short_passages_that_lose_no_word(text, name):
    document = read(text, name)

    assert all(0 < len(passage.text) <= MAX_PASSAGE_CHARS for passage in document.passages)
    if name == "a.txt":
        kept = "".join("".join(passage.text.split()) for passage in document.passages)
        assert kept == "".join(text.split())
