"""A leg that we dial over a trunk of the test's, with its user agent played by hand."""

import asyncio

from gateway.legs.base import CallInfo
from gateway.legs.dialler import TrunkDialler
from gateway.legs.outbound import Unroutable
from gateway.legs.sip_line import LineSettings
from gateway.net.pacer import Pacer
from gateway.net.ports import PortPool
from gateway.sip import events as sip
from gateway.sip.flow import Flow
from gateway.sip.target import Target
from providers.types import PCMU
from tests.gateway.legs.sip_line import HandAgent, offer

CALLER = CallInfo("call-1", "+12025550123", "+12025550100", "lab")
SALES = "+12125551234"


class HandRoute:
    """A trunk's way out that leads to loopback."""

    def __init__(self, trunk="lab", *, codecs=("PCMU", "PCMA"), error=""):
        self.trunk = trunk
        self.codecs = codecs
        self.error = error
        self.asked = []

    async def target(self, destination, identity):
        self.asked.append((destination, identity))
        if self.error:
            raise Unroutable(self.error)
        flow = Flow("udp", ("127.0.0.1", 9), ("127.0.0.1", 5060))
        return Target(f"sip:{destination}@127.0.0.1", f"<sip:{identity.number}@127.0.0.1>", (flow,))


class HandRoutes:
    """The ways out that a test lays out."""

    def __init__(self, *routes):
        self.routes = {route.trunk: route for route in routes}

    def find(self, trunk):
        return self.routes.get(trunk)

    def only(self):
        return next(iter(self.routes.values())) if len(self.routes) == 1 else None


class DiallingAgent(HandAgent):
    """A user agent that also calls."""

    def __init__(self):
        super().__init__()
        self.settings = LineSettings(codecs={})
        self.invited = []
        self.error = None

    def media_host(self, flow):
        return flow.local[0]

    def invite(self, leg, target, sdp):
        if self.error is not None:
            raise self.error
        self.invited.append((target, sdp))
        return "c1"

    def cancel(self, call):
        self.asked.append(("cancel", call))


class OutgoingLine:
    """A leg that was dialled, and the peer's media socket."""

    def __init__(self, *routes, line=PCMU):
        self.agent = DiallingAgent()
        self.pool = PortPool(25000, 25999, quarantine_s=0.0)
        self.pacer = Pacer()
        self.media = []
        self.heard = asyncio.Queue()
        self.routes = HandRoutes(*(routes or (HandRoute(),)))
        self._format = line
        self.dialler = TrunkDialler(
            line=self.agent,
            routes=self.routes,
            pool=self.pool,
            pacer=self.pacer,
            clock=asyncio.get_running_loop().time,
            on_media=self.media.append,
        )

    async def dial(self, *, trunk=None):
        return await self.dialler.dial(
            SALES, caller=CALLER, number=CALLER.called, line=self._format, trunk=trunk
        )

    async def __aenter__(self):
        queue = self.heard

        class Peer(asyncio.DatagramProtocol):
            def datagram_received(self, data, addr):
                queue.put_nowait((data, addr))

        loop = asyncio.get_running_loop()
        self.peer, _ = await loop.create_datagram_endpoint(Peer, local_addr=("127.0.0.1", 0))
        self.port = self.peer.get_extra_info("sockname")[1]
        self.leg = await self.dial()
        return self

    async def __aexit__(self, *error):
        self.leg.handle(sip.CallEnded("c1", by_peer=True, reason="bye"))
        self.peer.close()
        await asyncio.sleep(0)

    @property
    def media_port(self):
        return self.leg._lease.port

    async def answered(self):
        self.leg.handle(sip.CallAccepted("c1", offer(self.port)))
        await self.leg.answer()
        await anext(self.leg.events())

    async def hears(self, byte):
        """Wait for a packet full of one byte."""
        async with asyncio.timeout(5):
            while True:
                data, addr = await self.heard.get()
                if data[12:] == byte * 160:
                    return addr
