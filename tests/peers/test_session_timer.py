"""The shortest session timer there is, in real time: the gateway keeps its calls alive (RFC 4028)."""

from __future__ import annotations

import time

import pytest

from tests.kit.office import NUMBER, Office
from tests.kit.scenario import expand
from tests.kit.sipp import Sipp

pytestmark = pytest.mark.peers

OPENING = """
  <invite>
    Supported: timer
    Session-Expires: 90;refresher=uas
    Allow: {allow}
  </invite>
  <answered><has header="Session-Expires">90;refresher=uas</has></answered>
  <ack/>
"""
BY_UPDATE = f"""<scenario name="by UPDATE">{OPENING.format(allow="INVITE, ACK, BYE, CANCEL, UPDATE")}
  <expect request="UPDATE"><has header="Session-Expires">90;refresher=uac</has><lacks>m=audio</lacks></expect>
  <response status="200 OK">
    Session-Expires: 90;refresher=uac
  </response>
  <hangup/>
</scenario>"""
BY_INVITE = f"""<scenario name="by INVITE">{OPENING.format(allow="INVITE, ACK, BYE, CANCEL")}
  <expect request="INVITE">
    <has header="Session-Expires">90;refresher=uac</has>
    <has in="body">m=audio</has>
  </expect>
  <response status="200 OK">
    Session-Expires: 90;refresher=uac
    <sdp/>
  </response>
  <expect request="ACK"/>
  <hangup/>
</scenario>"""


@pytest.mark.report("BR-027")
def test_both_ways_of_a_refresh_at_half_the_interval(fake_office: Office, tmp_path):
    silent = {"limits": {"silence_hangup_s": None}, "silence": {"nudge_after_s": None}}
    gateway = fake_office.open(server={"sip": {"media_timeout_s": 300}}, agent=silent)
    begun = time.monotonic()
    with (
        Sipp(
            expand(BY_UPDATE), gateway.sip, fake_office.ports, tmp_path / "update", called=NUMBER, timeout=70
        ) as one,
        Sipp(
            expand(BY_INVITE), gateway.sip, fake_office.ports, tmp_path / "invite", called=NUMBER, timeout=70
        ) as two,
    ):
        outcomes = [one.wait(), two.wait()]
    for outcome in outcomes:
        assert outcome.clean, outcome.errors
        assert outcome.successful == 1
    assert 44.5 < time.monotonic() - begun < 60
    assert "timeout" not in gateway.log
