"""
Short SIPp scenarios: what every call says anyway is written once, here.

A scenario of ``tests/sipp`` is XML with SIPp's own elements and these:

``<invite/>``
    An INVITE with an offer. ``late="yes"`` leaves the offer out.
``<request method="BYE"/>``
    Any request, in the dialog once the call is answered. Lines of text are headers, in place of those of the
    same name. ``cseq``, ``uri``, ``branch`` (number of an earlier request's) and ``to="new"`` replace what
    would be right; ``without="Contact Allow"`` leaves headers out; ``compact="yes"`` writes short names.
``<ack/>``
    For a refusal with the branch of its INVITE, otherwise a request of its own.
``<response status="200 OK"/>``
    To the request that came last.
``<sdp formats="0 101"/>``, ``<body type="..."/>``
    Inside the four above: the message's body. A format is a static number or ``96=telephone-event/8000``;
    ``direction``, ``host``, ``port``, ``ptime``, ``profile`` replace what would be right; text is more lines.
``<expect response="200"/>``, ``<expect request="BYE"/>``
    What has to come. ``after="100 180"`` are responses that may come before it.
    ``<has header="Allow">REGEX</has>``, ``<has in="body">``, ``<has>`` for the whole message, and ``<lacks>``
    are what is asked of it;
    ``<keep as="NAME" header="RSeq">REGEX</keep>`` makes ``[$NAME]`` of what it finds.
``<answered/>``
    The 200 of an INVITE with its routes, after any provisional response; may hold the same elements.
``<established/>``, ``<hangup/>``
    ``<invite/><answered/><ack/>``, and BYE with its 200.
``<speak/>``
    Play ``caller.pcap``.
``<wait ms="200"/>``
    Nothing may come meanwhile.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from xml.sax.saxutils import quoteattr

STATIC = {"0": "PCMU/8000", "8": "PCMA/8000", "9": "G722/8000", "13": "CN/8000", "18": "G729/8000",
          "101": "telephone-event/8000"}  # fmt: skip
COMPACT = {
    "Via": "v", "From": "f", "To": "t", "Call-ID": "i", "Contact": "m", "Content-Type": "c",
    "Content-Length": "l", "Supported": "k",
}  # fmt: skip
ALLOW = "INVITE, ACK, BYE, CANCEL, OPTIONS, REFER, NOTIFY, INFO, UPDATE"
HOME = "sip:[service]@[remote_ip]:[remote_port]"
VIA = "SIP/2.0/[transport] [local_ip]:[local_port]"
PROVISIONAL = "100 180 183"


def expand(text: str) -> str:
    """Return the scenario as SIPp reads it."""
    root = ET.fromstring(text)
    return _Writer().scenario(root)


class _Writer:
    """What a caller remembers while the scenario is written."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.cseq = 0
        self.branch = 0
        self.invite = (0, 0)
        """CSeq and branch of the last INVITE."""
        self.version = 0
        self.answered = False
        self.sent = ""
        """Method of the last request other than ACK."""
        self.refused = False
        """Whether the last INVITE was."""
        self.reinvite = False
        """Whether the last INVITE was in the dialog."""
        self.kept = 0

    def scenario(self, root: ET.Element) -> str:
        for element in root:
            self.element(element)
        name = quoteattr(root.get("name", "scenario"))
        head = f'<?xml version="1.0" encoding="UTF-8"?>\n<scenario name={name}>\n'
        return head + "\n".join(self.lines) + "\n</scenario>\n"

    def element(self, element: ET.Element) -> None:
        match element.tag:
            case "invite" | "request" | "ack":
                self.request(element)
            case "response":
                self.response(element)
            case "expect":
                self.expect(element)
            case "answered":
                self.expect(element, {"response": "200", "after": PROVISIONAL, "rrs": "true"})
            case "established":
                for tag in ("invite", "answered", "ack"):
                    self.element(ET.Element(tag))
            case "hangup":
                self.element(ET.Element("request", {"method": "BYE"}))
                self.element(ET.Element("expect", {"response": "200"}))
            case "speak":
                self.lines.append('<nop><action><exec play_pcap_audio="caller.pcap"/></action></nop>')
            case "wait":
                self.lines.append(f'<pause milliseconds="{element.get("ms", "200")}"/>')
            case _:
                self.lines.append(ET.tostring(element, encoding="unicode").strip())

    # Sending.

    def request(self, element: ET.Element) -> None:
        method = {"invite": "INVITE", "ack": "ACK"}.get(element.tag) or element.get("method", "")
        cseq, branch = self._numbers(method, element)
        in_dialog = self.answered and element.get("to") != "new"
        if method == "INVITE":
            self.reinvite = in_dialog
        elif method == "ACK" and self.refused:
            in_dialog = self.reinvite
        uri = element.get("uri") or ("[next_url]" if in_dialog else HOME)
        to_tag = "[peer_tag_param]" if in_dialog or method == "ACK" else ""
        headers = [
            ("Via", f"{VIA};rport;branch=z9hG4bK-[pid]-[call_number]-{branch}"),
            ("Max-Forwards", "70"),
            ("From", "<sip:[caller]@[local_ip]>;tag=[pid]t[call_number]"),
            ("To", f"<{HOME}>{to_tag}"),
            ("Call-ID", "[call_id]"),
            ("CSeq", f"{cseq} {method}"),
            ("Contact", "<sip:sipp@[local_ip]:[local_port];transport=[transport]>"),
            ("Allow", ALLOW),
        ]  # fmt: skip
        routes = ["[routes]"] if in_dialog else []
        retrans = "" if method == "ACK" or element.get("retrans") == "no" else ' retrans="500"'
        self._send(f"{method} {uri} SIP/2.0", headers, element, retrans=retrans, before=routes)

    def _numbers(self, method: str, element: ET.Element) -> tuple[int, int]:
        """Return CSeq and branch: an ACK and a CANCEL have those of their INVITE."""
        if method in ("ACK", "CANCEL"):
            cseq, branch = self.invite
            if method == "ACK" and not self.refused:
                self.branch += 1
                branch = self.branch
        else:
            self.branch += 1
            self.sent, self.cseq = method, int(element.get("cseq", self.cseq + 1))
            cseq, branch = self.cseq, self.branch
            if method == "INVITE":
                self.invite, self.refused = (cseq, branch), False
        return int(element.get("cseq", cseq)), int(element.get("branch", branch))

    def response(self, element: ET.Element) -> None:
        copied = [(name, None) for name in ("Via", "Record-Route", "From", "To", "Call-ID", "CSeq")]
        contact = ("Contact", "<sip:sipp@[local_ip]:[local_port];transport=[transport]>")
        self._send(f"SIP/2.0 {element.get('status', '200 OK')}", [*copied, contact], element)

    def _send(
        self,
        start: str,
        headers: Iterable[tuple[str, str | None]],
        element: ET.Element,
        *,
        retrans: str = "",
        before: Iterable[str] = (),
    ) -> None:
        own = [line for line in _text_lines(element) if line]
        replaced = {line.partition(":")[0].strip().lower() for line in own if ":" in line}
        without = {name.lower() for name in element.get("without", "").split()} | replaced
        kind, body = self._body(element)
        if kind:
            headers = [*headers, ("Content-Type", kind)]
        names = COMPACT if element.get("compact") == "yes" else {}
        lines = [start]
        for name, value in headers:
            if name.lower() not in without:
                lines.append(f"[last_{name}:]" if value is None else f"{names.get(name, name)}: {value}")
        lines[2:2] = before
        if "content-length" not in without:
            own.append(f"{names.get('Content-Length', 'Content-Length')}: [len]")
        text = "\n".join([*lines, *own, "", *body])
        self.lines.append(f"<send{retrans}><![CDATA[\n{text}\n{'' if body else chr(10)}]]></send>")

    def _body(self, element: ET.Element) -> tuple[str, list[str]]:
        for child in element:
            if child.tag == "sdp":
                return "application/sdp", self._sdp(child)
            if child.tag == "body":
                return child.get("type", ""), _text_lines(child, keep_blank=True)
        if element.tag == "invite" and element.get("late") != "yes":
            return "application/sdp", self._sdp(ET.Element("sdp"))
        return "", []

    def _sdp(self, element: ET.Element) -> list[str]:
        self.version += 1
        formats = [part.partition("=") for part in element.get("formats", "0 101").split()]
        numbers = " ".join(number for number, _, _ in formats)
        host, port = element.get("host", "[media_ip]"), element.get("port", "[auto_media_port+4]")
        lines = [
            "v=0",
            f"o=sipp 53655765 {element.get('version', self.version)} IN IP[media_ip_type] [media_ip]",
            "s=-",
            f"c=IN IP[media_ip_type] {host}",
            "t=0 0",
            f"m=audio {port} {element.get('profile', 'RTP/AVP')} {numbers}",
        ]
        for number, _, given in formats:
            name = given or STATIC.get(number, "")
            lines += [f"a=rtpmap:{number} {name}"] if name else []
            lines += [f"a=fmtp:{number} 0-15"] if name.startswith("telephone-event") else []
        if element.get("ptime", "20") != "none":
            lines.append(f"a=ptime:{element.get('ptime', '20')}")
        return [*lines, f"a={element.get('direction', 'sendrecv')}", *filter(None, _text_lines(element))]

    # Receiving.

    def expect(self, element: ET.Element, defaults: dict[str, str] | None = None) -> None:
        given = {**(defaults or {}), **element.attrib}
        for status in given.pop("after", "").split():
            self.lines.append(f'<recv response="{status}" optional="true"/>')
        status = given.get("response", "")
        if self.sent == "INVITE" and status >= "200":
            self.refused = status >= "300"
        if given.get("rrs"):
            self.answered = True
        checks = list(self._checks(element))
        attributes = "".join(f" {name}={quoteattr(value)}" for name, value in given.items())
        if not checks:
            self.lines.append(f"<recv{attributes}/>")
            return
        actions = "".join(action for _, action in checks)
        self.lines.append(f"<recv{attributes}><action>{actions}</action></recv>")
        self.lines.append(f'<Reference variables="{",".join(name for name, _ in checks)}"/>')

    def _checks(self, element: ET.Element) -> Iterator[tuple[str, str]]:
        for child in element:
            self.kept += 1
            name = child.get("as") or f"check{self.kept}"
            check = "check_it_inverse" if child.tag == "lacks" else "check_it"
            where = f'search_in="{child.get("in", "msg")}"'
            if header := child.get("header"):
                where = f'search_in="hdr" header="{header}:"'
            regexp = quoteattr((child.text or "").strip())
            yield name, f'<ereg regexp={regexp} {where} {check}="true" assign_to="{name}"/>'


def _text_lines(element: ET.Element, *, keep_blank: bool = False) -> list[str]:
    """Return the text of an element by lines, without the blanks in front of them."""
    text = (element.text or "") + "".join(child.tail or "" for child in element)
    lines = [line.strip() for line in text.strip().splitlines()]
    return lines if keep_blank else [line for line in lines if line]
