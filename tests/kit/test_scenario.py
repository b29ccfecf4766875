"""Short scenarios become those that SIPp reads."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from tests.kit.scenario import expand


def sent(text: str) -> list[str]:
    """Return the messages that a scenario sends, as SIPp would see them."""
    return [element.text or "" for element in ET.fromstring(expand(text)).iter("send")]


def test_a_call_is_three_words():
    root = ET.fromstring(expand("<scenario><established/><hangup/></scenario>"))
    assert [element.tag for element in root] == [
        "send",
        "recv",
        "recv",
        "recv",
        "recv",
        "send",
        "send",
        "recv",
    ]
    invite, ack, bye = sent("<scenario><established/><hangup/></scenario>")
    assert "INVITE sip:[service]@" in invite
    assert "m=audio [auto_media_port+4] RTP/AVP 0 101" in invite
    assert "ACK [next_url] SIP/2.0" in ack
    assert "CSeq: 1 ACK" in ack
    assert "CSeq: 2 BYE" in bye
    assert "[routes]" in bye


def test_the_ack_of_a_refusal_has_the_branch_of_its_invite_and_that_of_a_200_its_own():
    branches = [
        re.findall(r"branch=(\S+)", message)
        for message in sent('<scenario><invite/><expect response="486"/><ack/></scenario>')
    ]
    assert branches[0] == branches[1]
    branches = [
        re.findall(r"branch=(\S+)", message) for message in sent("<scenario><established/></scenario>")
    ]
    assert branches[0] != branches[1]


def test_a_refused_reinvite_is_acknowledged_in_its_dialog():
    *_, ack = sent('<scenario><established/><invite/><expect response="488"/><ack/></scenario>')
    assert "ACK [next_url] SIP/2.0" in ack


def test_lines_of_text_are_headers_and_replace_those_of_the_same_name():
    (message,) = sent("<scenario><invite>\n  Max-Forwards: 0\n  X-Own: 1\n</invite></scenario>")
    assert re.findall(r"Max-Forwards: (.*)", message) == ["0"]
    assert "X-Own: 1" in message


def test_what_is_asked_of_a_message_becomes_actions_whose_variables_are_used():
    asked = '<has header="Reason">Q\\.850</has><lacks>x</lacks>'
    text = f'<scenario><expect request="BYE">{asked}</expect></scenario>'
    root = ET.fromstring(expand(text))
    first, second = root.iter("ereg")
    assert first.attrib == {
        "regexp": "Q\\.850",
        "search_in": "hdr",
        "header": "Reason:",
        "check_it": "true",
        "assign_to": "check1",
    }
    assert second.get("check_it_inverse") == "true"
    assert [element.get("variables") for element in root.iter("Reference")] == ["check1,check2"]
