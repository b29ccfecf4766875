"""All trunks' peers: begun, changed and ended as the configuration says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from config.trunks import TrunkSettings
from gateway.legs.peer import PeerContext, PeerStatus, TrunkPeer, status_without_peer
from gateway.legs.trunks import TrunkTable
from gateway.sip.flow import Flow

log = structlog.get_logger(__name__)


class Registrar:
    """
    Keeps in touch with the peers of all trunks.

    Args:
        table: Told which contacts belong to which trunk.
        context: What the peers share.
    """

    def __init__(self, table: TrunkTable, context: PeerContext) -> None:
        self._table = table
        self._context = context
        self._trunks: Mapping[str, TrunkSettings] = {}
        self._peers: dict[str, TrunkPeer] = {}
        self._group: asyncio.TaskGroup | None = None
        self._stopped = asyncio.Event()

    @property
    def statuses(self) -> list[PeerStatus]:
        """Every trunk, in the order of the configuration."""
        return [
            self._peers[name].status if name in self._peers else status_without_peer(name)
            for name in self._trunks
        ]

    def contact(self, trunk: str) -> str:
        """The user part of the contact that is registered for a trunk, or empty."""
        peer = self._peers.get(trunk)
        return peer.contact if peer else ""

    def service_route(self, trunk: str) -> tuple[str, ...]:
        """By which proxies the registrar of a trunk wants our calls to go."""
        peer = self._peers.get(trunk)
        return peer.service_route if peer else ()

    def use(self, trunks: Mapping[str, TrunkSettings]) -> None:
        """Begin with trunks that are new or changed, end with those that are gone; the others go on."""
        self._trunks = trunks
        for name, peer in list(self._peers.items()):
            if trunks.get(name) != peer.settings:
                del self._peers[name]
                peer.stop()
        for name, settings in trunks.items():
            if name not in self._peers and settings.peer is not None:
                peer = self._peers[name] = TrunkPeer(name, settings, self._context)
                if peer.contact:
                    self._table.set_contact(name, peer.contact)
                self._begin(peer)

    def connection_lost(self, flow: Flow) -> None:
        """Register anew at whoever was at the other end: it may have reached us by that connection alone."""
        for peer in self._peers.values():
            peer.connection_lost(flow)

    async def run(self) -> None:
        """Own the peers' tasks until :meth:`stop`; returns when every registration was taken away."""
        async with asyncio.TaskGroup() as self._group:
            for peer in self._peers.values():
                self._begin(peer)
            await self._stopped.wait()

    def stop(self) -> None:
        """Take all registrations away: no call is to come here any more."""
        for peer in self._peers.values():
            peer.stop()
        self._group = None
        self._stopped.set()

    def _begin(self, peer: TrunkPeer) -> None:
        if self._group is not None:
            self._group.create_task(peer.run(), name=f"trunk {peer.name}")
