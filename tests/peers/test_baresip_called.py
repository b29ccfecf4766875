"""A real telephone, Debian's baresip, is called by our user agent: answer, a new offer, and the end."""

from __future__ import annotations

import asyncio

import pytest

from gateway.net.tls import TlsFiles
from gateway.sip import events as sip
from tests.kit import sound
from tests.kit.baresip import Baresip
from tests.kit.certificates import Authority
from tests.sipp.caller import OFFER, Caller

pytestmark = pytest.mark.peers

HOLD = OFFER + b"a=sendonly\r\n"


@pytest.mark.parametrize("transport", ["udp", "tcp", "tls"])
async def test_baresip_answers_takes_a_hold_and_is_hung_up(ports, tmp_path, transport):
    authority = Authority(tmp_path / "ca")
    theirs, ours = authority.sign("127.0.0.1"), authority.sign("gw.example")
    tls = TlsFiles(ours.certificate, ours.private_key, ca=authority.file)
    words = sound.silence(1.0)
    with Baresip(None, ports, tmp_path / "baresip", words=words, certificate=theirs.both) as baresip:
        await asyncio.to_thread(baresip.wait_for, "baresip is ready", 10)
        async with Caller(tls) as caller:
            caller.does = {
                sip.CallAccepted: lambda event: caller.ua.reoffer(event.call, HOLD, now=caller.now),
                sip.ReofferAnswered: caller.bye,
            }
            # baresip has TLS on the port after that of UDP and TCP.
            port = baresip.sip[1] + (transport == "tls")
            caller.dial(caller.flow(port, transport), uri="sip:baresip@127.0.0.1")
            ended = await caller.until(sip.CallEnded)
            await asyncio.to_thread(baresip.wait_for, "session closed", 5)

    assert (ended.by_peer, ended.reason) == (False, "local")
    (held,) = [event for event in caller.events if isinstance(event, sip.ReofferAnswered)]
    assert held.status == 200
    assert b"a=recvonly" in (held.sdp or b"")
