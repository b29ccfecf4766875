import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.terminal import Bid, judge
from tools.types import EndRequest, TransferRequest

END, TRANSFER = EndRequest("e"), TransferRequest("t", "+1")
ended = Bid(END, ok=True)
transferred = Bid(TRANSFER, ok=True, failure_keeps_call=True)
transfer_failed = Bid(None, ok=False, failure_keeps_call=True)
nothing = Bid(None, ok=True)


@pytest.mark.parametrize(
    ("bids", "winner", "refused"),
    [
        ([], None, {}),
        ([nothing, Bid(None, ok=False)], None, {}),
        ([nothing, ended], 1, {}),
        ([ended, ended], 0, {1: "terminal_action_pending"}),
        ([transferred, ended], 0, {1: "terminal_action_pending"}),
        ([ended, transferred], 0, {1: "terminal_action_pending"}),
        ([Bid(END, ok=False), transferred], 1, {}),
        ([transfer_failed, ended], None, {1: "earlier_action_failed"}),
        ([ended, transfer_failed], 0, {}),
        ([transfer_failed, ended, transferred], 2, {1: "earlier_action_failed"}),
        ([Bid(TRANSFER, ok=False, failure_keeps_call=True), ended], None, {1: "earlier_action_failed"}),
        ([Bid(None, ok=False), ended], 1, {}),
    ],
)
def test_outcomes_are_looked_at_in_call_order(bids, winner, refused):
    verdict = judge(bids)

    assert (verdict.winner, verdict.refused) == (winner, refused)


@given(
    st.lists(
        st.builds(
            Bid, st.sampled_from([None, END, TRANSFER]), ok=st.booleans(), failure_keeps_call=st.booleans()
        ),
        max_size=8,
    )
)
@settings(max_examples=100, deadline=None)
def test_every_request_of_a_tool_that_succeeded_wins_or_is_refused_and_at_most_one_wins(bids):
    verdict = judge(bids)

    asking = {index for index, bid in enumerate(bids) if bid.request is not None and bid.ok}
    won = set() if verdict.winner is None else {verdict.winner}
    assert won | set(verdict.refused) == asking
    assert won.isdisjoint(verdict.refused)
