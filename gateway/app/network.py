"""From the settings to what the SIP endpoint takes."""

from __future__ import annotations

from config.fields import Listen
from config.server import ServerSettings
from gateway.net.sip_endpoint import EndpointSettings
from gateway.net.sip_gate import GateLimits
from gateway.net.tls import TlsFiles


def endpoint_settings(server: ServerSettings) -> EndpointSettings:
    """Return what the configuration says about sockets, names and certificates."""
    sip, tls = server.sip, server.sip.tls
    files = None
    if tls is not None:
        files = TlsFiles(tls.certificate, tls.private_key, tls.ca, verify_client=tls.verify_client)
    return EndpointSettings(
        public_address=sip.public_address,
        public_addresses={
            (listen.transport, listen.host, listen.port): address
            for key, address in sip.public_addresses.items()
            for listen in [Listen.parse(key)]
        },
        tcp_above=sip.tcp_above_bytes,
        dns=tuple((each.host, each.port) for each in server.dns),
        tls=files,
        origins=sip.websocket_origins,
        gate=GateLimits(messages_per_s=sip.max_messages_per_s),
    )
