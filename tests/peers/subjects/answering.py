"""
The gateway's SIP alone, as a process: the real user agent on its real endpoint, answering every call at once.

``python answering.py PORT T1_MS`` listens on UDP and TCP of 127.0.0.1. What a call costs in signalling, and
what a dialog weighs, is measured on it: sessions with a model and audio have measurements of their own.
"""

from __future__ import annotations

import asyncio
import gc
import secrets
import sys

import uvloop

from gateway.net.sip_endpoint import SipEndpoint
from gateway.sip import events as sip
from gateway.sip.settings import UaSettings
from gateway.sip.timers import Timers
from gateway.sip.ua import UserAgent

SDP = (
    b"v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n"
    b"m=audio 9 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\na=inactive\r\n"
)


async def main(port: int, t1_ms: int) -> None:
    clock = asyncio.get_running_loop().time
    ua = UserAgent(UaSettings(timers=Timers(t1=t1_ms / 1000)), lambda: secrets.token_hex(8))

    def handle(event: sip.SipEvent) -> None:
        match event:
            case sip.CallOffered():
                ua.ring(event.call, now=clock())
                ua.answer(event.call, SDP, now=clock())
            case sip.CallReoffered():
                ua.answer_reoffer(event.call, SDP, now=clock())
            case _:
                pass  # ends, and what nobody has to answer

    endpoint = SipEndpoint(ua, allowed=lambda host: True, on_event=handle, clock=clock)
    await endpoint.listen("udp", "127.0.0.1", port)
    await endpoint.listen("tcp", "127.0.0.1", port)
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    while True:
        await asyncio.sleep(1)
        print(f"dialogs {ua.dialogs} transactions {ua.transactions}", flush=True)


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2])))
