"""The ways out over the configured trunks (:mod:`gateway.legs.outbound`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from config.trunks import TrunkSettings
from gateway.legs.numbers import as_dialled
from gateway.legs.outbound import Identity, Unroutable
from gateway.legs.peer import credentials_of, listener_of, own_host
from gateway.net.public_address import Bound
from gateway.sip.flow import Flow
from gateway.sip.target import Target
from gateway.sip.uri import SipUri


class LookUp(Protocol):
    """Finds where a URI leads to, from one listener of ours or the one that fits."""

    async def __call__(self, uri: str, listener: Bound | None = None) -> tuple[Flow, ...]: ...


class TrunkRoute:
    """
    One trunk's way out; satisfies :class:`gateway.legs.outbound.OutboundRoute`.

    Args:
        name: The trunk's.
        settings: The trunk's; its ``peer`` is not ``None``.
        contact: User part of our Contact, empty for none.
        look_up: Finds addresses.
        routes: Route headers.
    """

    def __init__(
        self,
        name: str,
        settings: TrunkSettings,
        contact: str,
        look_up: LookUp,
        routes: tuple[str, ...] = (),
    ) -> None:
        self._routes = routes
        self._name = name
        self._settings = settings
        self._contact = contact
        self._look_up = look_up

    @property
    def trunk(self) -> str:
        return self._name

    @property
    def codecs(self) -> Sequence[str]:
        return self._settings.codecs

    async def target(self, destination: str, identity: Identity) -> Target:
        """Build the INVITE's addresses; everything goes to the trunk's peer, whatever the URI's host."""
        settings, peer = self._settings, self._settings.peer
        assert peer is not None
        uri = self._uri(destination)
        flows = await self._look_up(peer.domain, listener_of(settings))
        if not flows:
            raise Unroutable(f"{peer.domain} of the trunk {self._name} has no address")
        host = own_host(settings, flows[0])
        user = settings.from_user or (settings.register.user if settings.register else identity.number)
        return Target(
            uri=uri,
            from_=f"<sip:{user or 'anonymous'}@{host}>",
            flows=flows,
            credentials=credentials_of(settings),
            routes=self._routes,
            headers=self._vouch(identity, host),
            user=self._contact,
        )

    def _uri(self, destination: str) -> str:
        peer = self._settings.register or self._settings.peer
        assert peer is not None
        if not destination.lower().startswith(("sip:", "sips:")):
            settings = self._settings
            number = as_dialled(destination, settings.number_format, settings.country or "")
            destination = f"{peer.scheme}:{settings.dial_prefix}{number}@{peer.place}"
        try:
            return str(SipUri.parse(destination))
        except ValueError as error:
            raise Unroutable(str(error)) from error

    def _vouch(self, identity: Identity, host: str) -> tuple[tuple[str, str], ...]:
        """Tell a trusted network who really calls, and that we forward the call (RFC 3325, RFC 5806)."""
        if not self._settings.trusted or not identity.caller:
            return ()
        try:
            caller = SipUri.parse(f"sip:{identity.caller}@{host}")
            forwarder = SipUri.parse(f"sip:{identity.number}@{host}")
        except ValueError:
            return ()  # a caller whose name makes no address
        return (
            ("P-Asserted-Identity", f"<{caller}>"),
            ("Diversion", f"<{forwarder}>;reason=deflection;counter=1"),
        )


def _straight(trunk: str) -> tuple[str, ...]:
    del trunk
    return ()


class TrunkRoutes:
    """
    The ways out over all trunks; satisfies :class:`gateway.legs.outbound.OutboundRoutes`.

    Args:
        trunks: By name.
        contact: Returns the user part of the contact that is registered for a trunk.
        look_up: Finds addresses.
        service_route: Returns the Route headers that the registrar of a trunk has asked for.
    """

    def __init__(
        self,
        trunks: Mapping[str, TrunkSettings],
        contact: Callable[[str], str],
        look_up: LookUp,
        service_route: Callable[[str], tuple[str, ...]] = _straight,
    ) -> None:
        self._service_route = service_route
        self._trunks = {name: settings for name, settings in trunks.items() if settings.peer is not None}
        self._contact = contact
        self._look_up = look_up

    def find(self, trunk: str) -> TrunkRoute | None:
        settings = self._trunks.get(trunk)
        if settings is None:
            return None
        return TrunkRoute(trunk, settings, self._contact(trunk), self._look_up, self._service_route(trunk))

    def only(self) -> TrunkRoute | None:
        return self.find(next(iter(self._trunks))) if len(self._trunks) == 1 else None
