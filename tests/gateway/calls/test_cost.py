"""What a call costs, to the millionth of a dollar; and what nobody has priced is unknown."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.prices import Price, Tariff
from gateway.calls.cost import Account, Bill, ModelName, price_of
from providers.types import AMOUNTS, Usage

REALTIME = Price(
    text_in=Decimal("4.00"),
    cached_text_in=Decimal("0.40"),
    text_out=Decimal("24.00"),
    audio_in=Decimal("32.00"),
    cached_audio_in=Decimal("0.40"),
    audio_out=Decimal("64.00"),
)
USED = Usage(
    text_in=1000, audio_in=2000, cached_text_in=3000, cached_audio_in=4000, text_out=500, audio_out=6000
)
COST = (
    Decimal("0.004")
    + Decimal("0.064")
    + Decimal("0.0012")
    + Decimal("0.0016")
    + Decimal("0.012")
    + Decimal("0.384")
)
BY_MINUTE = Price(minute=Decimal("0.017"))


def account(prices=None, *, models=("a", "b")):
    names = {name: ModelName("openai", f"model-{name}") for name in models}
    return Account(Tariff(prices if prices is not None else {("openai", "model-a"): REALTIME}), names)


def test_every_kind_of_token_has_its_own_price():
    assert price_of(USED, REALTIME) == (COST, True)


def test_a_minute_is_billed_by_the_second():
    assert price_of(Usage(seconds=90.0), BY_MINUTE) == (Decimal("0.0255"), True)


def test_tokens_beside_a_price_by_the_minute_are_only_told():
    assert price_of(Usage(seconds=60.0, audio_in=9999), BY_MINUTE) == (Decimal("0.017"), True)


def test_seconds_beside_priced_tokens_are_only_told():
    assert price_of(Usage(seconds=60.0, audio_out=1_000_000), REALTIME) == (Decimal(64), True)


@pytest.mark.parametrize(
    ("usage", "price"),
    [
        (Usage(audio_in=1), None),
        (Usage(audio_in=1), BY_MINUTE),
        (Usage(seconds=1.0), REALTIME),
        (Usage(audio_in=1), Price(text_in=Decimal(1))),
    ],
)
def test_what_has_no_price_makes_the_whole_unknown(usage, price):
    assert price_of(usage, price) == (0, False)


def test_a_call_without_any_usage_yet_has_an_unknown_cost_and_not_none():
    call = account()
    assert (call.bill().total, call.bill().known) == (None, 0)
    call.follow("a", Usage)
    assert (call.bill().total, call.bill().lines) == (None, ())


def test_the_sessions_of_a_call_are_added_up_also_those_that_are_over():
    call = account({("openai", "model-a"): REALTIME, ("openai", "model-b"): BY_MINUTE})
    call.follow("a", lambda: USED)
    call.follow("b", lambda: Usage(seconds=60.0))
    call.follow("a", lambda: USED)
    bill = call.bill()
    assert [(line.provider, line.model) for line in bill.lines] == [("a", "model-a"), ("b", "model-b")]
    assert bill.lines[0].usage == USED + USED
    assert bill.total == 2 * COST + Decimal("0.017")


def test_a_model_without_a_price_leaves_the_rest_known():
    call = account()
    call.follow("a", lambda: USED)
    call.follow("b", lambda: Usage(audio_out=1))
    bill = call.bill()
    assert [line.cost for line in bill.lines] == [COST, None]
    assert (bill.total, bill.known) == (None, COST)


def test_what_another_model_did_for_a_session_has_its_own_line_and_price():
    call = account({("openai", "model-a"): REALTIME, ("openai", "scribe"): BY_MINUTE})
    call.follow("a", lambda: Usage(audio_out=1_000_000, others={"scribe": Usage(seconds=60.0)}))
    assert [(line.model, line.cost) for line in call.bill().lines] == [
        ("model-a", Decimal(64)),
        ("scribe", Decimal("0.017")),
    ]


def test_the_prices_of_a_provider_go_before_those_of_its_kind():
    call = account({("openai", "model-a"): REALTIME, ("a", "model-a"): Price(audio_out=Decimal(1))})
    call.follow("a", lambda: Usage(audio_out=1_000_000))
    assert call.bill().total == 1


amounts = st.builds(Usage, **{name: st.integers(0, 10**6) for name in AMOUNTS})


@settings(deadline=None, max_examples=100)
@given(st.lists(amounts, min_size=1, max_size=5))
def test_what_is_added_step_by_step_is_the_whole(steps):
    now = Usage()
    call = account()
    call.follow("a", lambda: now)
    told, tokens, cost = Bill(), Usage(), Decimal(0)
    for step in steps:
        now += step
        bill = call.bill()
        for line in bill.since(told):
            tokens, cost = tokens + line.usage, cost + line.known
        told = bill
    assert tokens == now
    assert cost == told.known
