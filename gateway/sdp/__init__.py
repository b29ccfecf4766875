"""Session descriptions and the offer/answer model, sans-I/O."""

from gateway.sdp.description import Codec, Direction, Media, SdpError, SessionDescription
from gateway.sdp.offer_answer import Local, NegotiatedMedia, NotAcceptable, accept, answer, make_offer
from gateway.sdp.parser import parse

__all__ = [
    "Codec",
    "Direction",
    "Local",
    "Media",
    "NegotiatedMedia",
    "NotAcceptable",
    "SdpError",
    "SessionDescription",
    "accept",
    "answer",
    "make_offer",
    "parse",
]
