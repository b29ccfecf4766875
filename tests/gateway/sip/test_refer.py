import pytest

from gateway.sip.message import Headers, Request, Response
from gateway.sip.refer import ReferState, ReferSubscription, event_of


def notify(event="refer", state="active;expires=60", body=b"SIP/2.0 100 Trying"):
    return Request(Headers([("Event", event), ("Subscription-State", state)]), body, "NOTIFY")


def accepted(status=202, **headers) -> Response:
    return Response(
        Headers([(name.replace("_", "-"), value) for name, value in headers.items()]), b"", status
    )


@pytest.fixture
def subscription():
    return ReferSubscription(7, expires_at=60.0)


@pytest.mark.parametrize(
    ("event", "belongs"),
    [
        ("refer", True),
        ("Refer;id=7", True),
        ("refer;id=8", False),
        ("presence", False),
        ("", False),
        ('refer;id="', True),
    ],
)
def test_which_notify_belongs_to_it(subscription, event, belongs):
    assert subscription.matches(notify(event)) is belongs


def test_progress_then_a_final_status(subscription):
    assert subscription.answered(accepted())
    assert subscription.notified(notify()) == (100, "Trying", False)
    assert subscription.notified(notify(body=b"SIP/2.0 200 OK\r\n")) == (200, "OK", True)
    assert subscription.state is ReferState.ENDED
    assert not subscription.matches(notify())


def test_a_notify_may_overtake_the_202(subscription):
    subscription.notified(notify())

    assert subscription.state is ReferState.ACTIVE
    assert subscription.answered(accepted())


@pytest.mark.parametrize("body", [b"", b"SIP/2.0 180 Ringing", b"rubbish"])
def test_an_end_without_a_final_status_is_unknown(subscription, body):
    assert subscription.notified(notify(state="Terminated ; reason=noresource", body=body)) == (
        0,
        "unknown",
        True,
    )


@pytest.mark.parametrize(
    "response", [accepted(603), accepted(302), accepted(405), accepted(202, Refer_Sub=" False ;x")]
)
def test_refusals_and_silence_end_it(subscription, response):
    assert not subscription.answered(response)
    assert not subscription.live


def test_event_headers():
    assert event_of(notify("Refer ; ID=9")) == ("refer", "9")
    assert event_of(Request()) == ("", "")
