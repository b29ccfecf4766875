from gateway.dialogue.policy import CallPolicy
from tools.types import EndRequest, TransferRequest


def test_an_open_call_allows_every_tool():
    assert CallPolicy().denial("lookup_caller") is None


def test_a_pending_terminal_action_denies_every_tool():
    policy = CallPolicy()
    policy.claim(EndRequest("call_1"))

    for tool in ("end_call", "transfer_call", "lookup_caller", "query_knowledge"):
        assert policy.denial(tool) == ("terminal_action_pending", "terminal_action_pending")


def test_only_the_first_terminal_request_wins():
    policy = CallPolicy()

    assert policy.claim(TransferRequest("call_1", "+12125551234"))
    assert not policy.claim(EndRequest("call_2"))
    assert policy.pending == TransferRequest("call_1", "+12125551234")


def test_a_failed_transfer_opens_the_call_again():
    policy = CallPolicy()
    policy.claim(TransferRequest("call_1", "+12125551234"))
    policy.release()

    assert policy.denial("end_call") is None
    assert policy.claim(EndRequest("call_2"))
