import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.store.relevance import content_words, rarity, relevance, similar, words


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What are your opening hours?", ("opening", "hours")),
        ("Где находится ваш офис?", ("находится", "офис")),
        ("счётчик СЧЁТЧИК", ("счетчик",)),
        ("кеңсе қайда орналасқан", ("кеңсе", "орналасқан")),
        ("room 5 b", ("room", "5")),
        ("who are you", ()),
        ("?!", ()),
    ],
)
def test_content_words_carry_the_subject(query, expected):
    assert content_words(query) == expected


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("costs", "cost"),
        ("оплатить", "оплата"),
        ("счетчика", "счетчик"),
        ("төлемді", "төлем"),
        ("pay", "payment"),
    ],
)
def test_forms_of_a_word_are_similar_and_less_than_the_same(word, other):
    assert 0 < similar(word, other) < 1
    assert similar(word, other) == similar(other, word)
    assert similar(word, word) == 1


@pytest.mark.parametrize(
    ("word", "other"), [("car", "cat"), ("12", "121"), ("120", "1201"), ("order", "orthodox"), ("газ", "где")]
)
def test_different_words_are_not_similar(word, other):
    assert similar(word, other) == 0


def test_rare_words_weigh_more_and_a_word_that_no_passage_holds_counts():
    assert rarity(100, 1) > rarity(100, 50) > rarity(100, 100) > 0
    assert 0 < rarity(100, 0) < rarity(100, 1)
    assert rarity(0, 0) > 0


@given(st.text(max_size=80), st.text(max_size=200), st.integers(0, 50))
@settings(max_examples=100, deadline=None)
def test_relevance_is_a_share(query, passage, total):
    held = frozenset(words(passage))

    score = relevance(content_words(query), held, lambda word: rarity(total, total // 2))

    assert 0 <= score <= 1 + 1e-9


def test_a_passage_that_holds_every_word_is_fully_relevant():
    assert relevance(("opening", "hours"), {"the", "opening", "hours"}, lambda _: 2.0) == 1
    assert relevance((), {"x"}, lambda _: 1.0) == 0
