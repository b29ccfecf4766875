"""A user agent on real sockets of loopback, with the short timers of a test, and its peers."""

import asyncio
import itertools
import re

from gateway.net.sip_connection import ConnectionLimits
from gateway.net.sip_endpoint import EndpointSettings, SipEndpoint
from gateway.sip import events as sip
from gateway.sip.settings import UaSettings
from gateway.sip.timers import Timers
from gateway.sip.ua import UserAgent
from tests.kit import sip_text

ANSWER = b"v=0\r\n"
QUICK = Timers(t1=0.02, t2=0.08, t4=0.1, timer_d=0.1)


class Gateway:
    """A user agent whose application answers every call, on sockets of its own."""

    def __init__(
        self,
        *,
        allow=True,
        answer=True,
        timers=QUICK,
        limits=None,
        verify=True,
        listen=("udp:127.0.0.1", "tcp:127.0.0.1"),
        **settings,
    ):
        self.listen = [each.split(":", 1) for each in listen]
        count = itertools.count(1)
        self.ua = UserAgent(UaSettings(timers=timers), lambda: f"tk{next(count)}")
        self.events: list[sip.SipEvent] = []
        self.answer = answer
        self.news = asyncio.Event()
        self.endpoint = SipEndpoint(
            self.ua,
            allowed=lambda host: allow,
            on_event=self.on_event,
            clock=asyncio.get_running_loop().time,
            settings=EndpointSettings(connections=limits or ConnectionLimits(), **settings),
            verify=lambda host: verify,
        )

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def on_event(self, event):
        self.events.append(event)
        self.news.set()
        if isinstance(event, sip.CallOffered) and self.answer:
            self.ua.ring(event.call, now=self.now())
            self.ua.answer(event.call, ANSWER, now=self.now())
            self.endpoint.settle()  # harmless inside of an event

    async def __aenter__(self):
        for transport, host in self.listen:
            await self.endpoint.listen(transport, host, 0)
        for transport, *address in reversed(self.endpoint.addresses):
            setattr(self, transport, tuple(address))  # of several, the first one
        return self

    async def __aexit__(self, *_):
        await self.endpoint.close()

    async def until(self, kind):
        async with asyncio.timeout(3):
            while not (found := [event for event in self.events if isinstance(event, kind)]):
                self.news.clear()
                await self.news.wait()
        return found[0]


class Phone(asyncio.DatagramProtocol):
    """A UDP socket with the peer's side."""

    def __init__(self, gateway: Gateway, host="127.0.0.1", port=0):
        self.gateway = gateway
        self.port = port
        self.host = host
        self.arrived: asyncio.Queue = asyncio.Queue()
        self.closed = asyncio.Event()

    def datagram_received(self, data, addr):
        self.arrived.put_nowait(data)

    def connection_lost(self, exc):
        self.closed.set()

    def send(self, data: bytes, to=None):
        self.transport.sendto(data, tuple(to or self.gateway.udp))

    async def receive(self) -> sip_text.Message:
        async with asyncio.timeout(3):
            return sip_text.read(await self.arrived.get())

    async def silent(self, after=0.1) -> bool:
        try:
            async with asyncio.timeout(after):
                await self.arrived.get()
        except TimeoutError:
            return True
        return False

    async def __aenter__(self):
        loop = asyncio.get_running_loop()
        self.transport, _ = await loop.create_datagram_endpoint(
            lambda: self, local_addr=(self.host, self.port)
        )
        self.port = self.transport.get_extra_info("sockname")[1]
        return self

    async def __aexit__(self, *_):
        self.transport.close()
        await self.closed.wait()


def request(
    method, place, *, transport="UDP", branch="1", cseq=1, to_tag="", body="", contact=None, rport=";rport"
):
    to = "<sip:100@gw>" + (f";tag={to_tag}" if to_tag else "")
    headers = [
        ("Via", f"SIP/2.0/{transport} {place};branch=z9hG4bK{branch}{rport}"),
        ("From", "<sip:me@phone>;tag=f"),
        ("To", to),
        ("Call-ID", "c1"),
        ("CSeq", f"{cseq} {method}"),
        ("Contact", contact or f"<sip:me@{place};transport={transport.lower()}>"),
    ]
    return sip_text.write(f"{method} sip:100@gw SIP/2.0", headers, body)


async def tcp_message(reader) -> sip_text.Message:
    async with asyncio.timeout(3):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"Content-Length: (\d+)", head)[1])
        return sip_text.read(head + await reader.readexactly(length))


async def answered_call(gateway, phone, to=None, **kwargs):
    """Have a call up and return its handle and the 200."""
    place = f"[{phone.host}]:{phone.port}" if ":" in phone.host else f"{phone.host}:{phone.port}"
    phone.send(request("INVITE", place, **kwargs), to)
    *_, ok = [await phone.receive() for _ in range(3)]
    phone.send(request("ACK", place, branch="2", to_tag=ok.tag("to")), to)
    return (await gateway.until(sip.CallConfirmed)).call, ok


def hang_up(gateway, call):
    gateway.ua.bye(call, now=gateway.now())
    gateway.endpoint.settle()
