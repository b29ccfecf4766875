"""
How well a passage answers a query: the share of the query's words that it holds (no I/O).

A full-text index finds candidates but always has a best one, also for a question that no document
answers. Words are compared by their common beginning, which stands in for stemming in Russian,
Kazakh and English alike; words that carry no subject are left out, and rare words weigh more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from typing import Final

THRESHOLD: Final = 0.4
"""Below this a passage shares some words with the query but not its subject."""
_SAME_ENOUGH: Final = 0.5
_COMMON: Final = 3
"""Letters that two forms of a word share at least."""
_WORD: Final = re.compile(r"\w+")
_FUNCTION_WORDS: Final = frozenset(
    """
    a about am an and any are as at be been but by can could did do does for from get had has have how i
    if in into is it its know like may me my need of on or our please say should so some tell than that
    the their them there these they this to up us want was we were what when where which who why will with
    would you your а бы в во вы где для до есть же за и из или их к как какая какие какой каких когда кто
    ли мне мой моя можно мы на над нам нас наш не но о об он она они от по под при про с сколько скажите
    со так там то у узнать ваш ваша ваши вас вам хочу что чем это я расскажите ал ба бе ма ме па пе бар
    біз бұл да де және кім қай қайда қалай қандай қанша қашан маған мен мені не неге осы ол сіз сіздің
    туралы үшін ше айтыңызшы болады бола керек
    """.split()  # noqa: SIM905 - a list of one word a line would be 150 lines
)


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text in lower case, ``ё`` as ``е``."""
    return tuple(_WORD.findall(text.lower().replace("ё", "е")))


def content_words(query: str) -> tuple[str, ...]:
    """Return the words of a query that carry its subject, each once."""
    return tuple(
        dict.fromkeys(
            word for word in words(query) if word not in _FUNCTION_WORDS and (len(word) > 1 or word.isdigit())
        )
    )


def relevance(query: Sequence[str], passage: Collection[str], weight: Callable[[str], float]) -> float:
    """Return 0 to 1: the weighted share of ``query``'s words that ``passage`` holds."""
    total = sum(weight(word) for word in query)
    if not total:
        return 0.0
    alike: dict[str, list[str]] = {}
    for other in passage:
        alike.setdefault(other[:_COMMON], []).append(other)
    best = {
        word: max((similar(word, other) for other in alike.get(word[:_COMMON], ())), default=0.0)
        for word in query
    }
    return sum(weight(word) * best[word] for word in query) / total


def rarity(passages: int, holding: int) -> float:
    """
    Weigh a word by how few passages hold it.

    A word that no passage holds weighs as much as one in a fifth of them: it may be the subject
    of a question that nothing answers, or only the caller's own word for it.
    """
    usual = holding if holding else max(1, passages // 5)
    return math.log(1 + (max(0, passages - usual) + 0.5) / (usual + 0.5)) + 0.1


def similar(word: str, other: str) -> float:
    """Return 1 for the same word, less for a common beginning, 0 for different words."""
    if word == other:
        return 1.0
    shorter, longer = sorted((word, other), key=len)
    common = next((i for i, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), len(shorter))
    # Digits are exact: room 12 is not room 121.
    if common < _COMMON or word[0].isdigit() or common < 0.6 * len(shorter):
        return 0.0
    share = common / len(longer)
    return share if share >= _SAME_ENOUGH or common == len(shorter) else 0.0
