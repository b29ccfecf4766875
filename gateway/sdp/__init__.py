"""Session descriptions and the offer/answer model, sans-I/O."""

from gateway.sdp.crypto import Crypto, Suite, draw_crypto, redact_sdp
from gateway.sdp.description import Codec, Direction, Media, SdpError, SessionDescription
from gateway.sdp.fingerprint import Fingerprint, Setup
from gateway.sdp.ice import Ice, IceCredentials, draw_ice
from gateway.sdp.local import (
    CodecName,
    Dtls,
    Local,
    LocalSecurity,
    NegotiatedMedia,
    NotAcceptable,
    Protection,
    Sdes,
    SrtpPolicy,
)
from gateway.sdp.offer_answer import accept, answer, make_offer
from gateway.sdp.parser import parse

__all__ = [
    "Codec",
    "CodecName",
    "Crypto",
    "Direction",
    "Dtls",
    "Fingerprint",
    "Ice",
    "IceCredentials",
    "Local",
    "LocalSecurity",
    "Media",
    "NegotiatedMedia",
    "NotAcceptable",
    "Protection",
    "Sdes",
    "SdpError",
    "SessionDescription",
    "Setup",
    "SrtpPolicy",
    "Suite",
    "accept",
    "answer",
    "draw_crypto",
    "draw_ice",
    "make_offer",
    "parse",
    "redact_sdp",
]
