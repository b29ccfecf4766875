"""
The user agent on real sockets with an application of a few lines, so that each race can be played exactly.

Whole calls through ``trunkline serve`` are in ``tests/peers``.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable

from gateway.net.sip_endpoint import EndpointSettings, SipEndpoint
from gateway.net.tls import TlsFiles
from gateway.sip import events as sip
from gateway.sip.flow import Flow
from gateway.sip.settings import UaSettings
from gateway.sip.target import Credentials, Target
from gateway.sip.ua import UserAgent

OFFER = (
    b"v=0\r\no=us 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 20000 RTP/AVP 0\r\n"
)
Does = dict[type, Callable[[sip.SipEvent], object]]


class Caller:
    """Places one call and does with it what the test says."""

    def __init__(self, tls: TlsFiles | None = None) -> None:
        self.ua = UserAgent(UaSettings(), lambda: secrets.token_hex(8))
        self.events: list[sip.SipEvent] = []
        self.news = asyncio.Event()
        self.does: Does = {}
        self.endpoint = SipEndpoint(
            self.ua,
            allowed=lambda host: True,
            on_event=self.heard,
            clock=asyncio.get_running_loop().time,
            settings=EndpointSettings(tls=tls),
        )

    async def __aenter__(self) -> Caller:
        await self.endpoint.listen("udp", "127.0.0.1", 0)
        await self.endpoint.listen("tcp", "127.0.0.1", 0)
        self.here = {transport: (host, port) for transport, host, port in self.endpoint.addresses}
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.endpoint.close()

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def flow(self, port: int, transport: str = "udp") -> Flow:
        here = self.here["udp" if transport == "udp" else "tcp"]
        return Flow(transport, ("127.0.0.1", port), here, domain="127.0.0.1" if transport == "tls" else "")

    def dial(
        self,
        *flows: Flow,
        uri: str = "sip:+12025550177@carrier.example",
        credentials: Credentials | None = None,
    ) -> str:
        target = Target(uri, "<sip:+12025550100@gw.example>", flows, credentials=credentials)
        self.call = self.ua.invite(target, OFFER, now=self.now)
        self.endpoint.settle()
        return self.call

    def heard(self, event: sip.SipEvent) -> None:
        self.events.append(event)
        act = self.does.get(type(event))
        if act is not None:
            act(event)
        self.news.set()

    async def until(self, kind: type) -> sip.SipEvent:
        async with asyncio.timeout(20):
            while not (found := [event for event in self.events if isinstance(event, kind)]):
                self.news.clear()
                await self.news.wait()
        return found[-1]

    def bye(self, event: sip.SipEvent) -> None:
        del event
        self.ua.bye(self.call, now=self.now)
