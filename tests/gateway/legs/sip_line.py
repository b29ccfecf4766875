"""A SIP leg with its user agent played by hand, and the peer's media socket."""

import asyncio

from gateway.legs.base import CallInfo
from gateway.legs.description import CallDescription
from gateway.legs.sip import SipLeg
from gateway.net.pacer import Pacer
from gateway.net.ports import PortPool
from gateway.sip import events as sip
from providers.types import PCMU

OFFER = """v=0\r
o=- 1 {version} IN IP4 127.0.0.1\r
s=-\r
c=IN IP4 127.0.0.1\r
t=0 0\r
m=audio {port} RTP/AVP 0 101\r
a=rtpmap:101 telephone-event/8000\r
a={direction}\r
"""


def offer(port, *, direction="sendrecv", version=1):
    return OFFER.format(port=port, direction=direction, version=version).encode()


class HandAgent:
    """A user agent that only writes down what it is asked to do."""

    def __init__(self):
        self.asked = []

    def answer(self, call, sdp):
        self.asked.append(("answer", sdp))

    def reject(self, call, status, reason):
        self.asked.append(("reject", status, reason))

    def bye(self, call):
        self.asked.append(("bye",))

    def refer(self, call, destination):
        self.asked.append(("refer", destination))

    def answer_refer(self, call, status):
        self.asked.append(("answer_refer", status))

    def answer_reoffer(self, call, sdp, why=""):
        self.asked.append(("answer_reoffer", sdp if sdp is not None else why))


class Line:
    """A leg, and the peer's media socket."""

    def __init__(self, *, late_offer=False):
        self.agent = HandAgent()
        self.pool = PortPool(24000, 24999, quarantine_s=0.0)
        self.pacer = Pacer()
        self.media = []
        self.loop = asyncio.get_running_loop()
        lease = self.pool.lease(self.loop.time())
        self.heard = asyncio.Queue()
        self._late_offer = late_offer
        self._lease = lease

    async def __aenter__(self):
        queue = self.heard

        class Peer(asyncio.DatagramProtocol):
            def datagram_received(self, data, addr):
                queue.put_nowait((data, addr))

        self.peer, _ = await self.loop.create_datagram_endpoint(Peer, local_addr=("127.0.0.1", 0))
        self.port = self.peer.get_extra_info("sockname")[1]
        self.leg = SipLeg(
            info=CallInfo("call-1", "", "+12025550100", "lab"),
            call="c1",
            signalling=self.agent,
            description=CallDescription.for_offer(
                None if self._late_offer else offer(self.port),
                host="127.0.0.1",
                port=self._lease.port,
                codecs=("PCMU", "PCMA"),
            ),
            lease=self._lease,
            clock=self.loop.time,
            format=PCMU,
            local_host="127.0.0.1",
            pacer=self.pacer,
            prebuffer_ms=20,
            on_media=self.media.append,
        )
        return self

    async def __aexit__(self, *exc):
        self.leg.handle(sip.CallEnded("c1", by_peer=True, reason="bye"))
        self.peer.close()
        await asyncio.sleep(0)

    async def answered(self, answer=None):
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            group.create_task(self.leg.answer())
            while not self.agent.asked:
                await asyncio.sleep(0)
            self.leg.handle(sip.CallConfirmed("c1", answer))

    @property
    def media_port(self):
        return self._lease.port

    async def hears(self, byte):
        """Wait for a packet full of one byte."""
        async with asyncio.timeout(5):
            while True:
                data, addr = await self.heard.get()
                if data[12:] == byte * 160:
                    return addr

    def events_now(self):
        return list(self.leg._events._items)
