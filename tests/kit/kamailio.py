"""
Kamailio before the gateway: a proxy that stays in the route, and a registrar that asks for a digest.

Its configuration is written for each test. Facts that cost time: ``-DD`` changes the folder, so every path in
it is absolute; a call that changes transport on its way gets two Record-Route headers; ``Process`` ends the
main process, which ends its children.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from pathlib import Path

from tests.kit import sip_text
from tests.kit.certificates import Pair
from tests.kit.ports import Ports
from tests.kit.process import Process
from tests.kit.udp import Address

REALM = "pbx.example"
MODULES = "/usr/lib/x86_64-linux-gnu/kamailio/modules/"
LOADED = (
    "tm", "sl", "rr", "maxfwd", "pv", "xlog", "textops", "siputils", "usrloc", "registrar", "auth", "kex",
)  # fmt: skip
CONFIG = """\
#!KAMAILIO
debug=1
log_stderror=yes
fork=yes
children=1
tcp_children=1
auto_aliases=no
alias="{realm}"
dns=no
rev_dns=no
tcp_connection_lifetime=60
listen=udp:{host}:{port}
listen=tcp:{host}:{port}
{tls_listen}
mpath="{modules}"
{load}
{tls_parameters}
modparam("registrar", "min_expires", {min_expires})
modparam("registrar", "max_expires", {max_expires})
modparam("auth", "nonce_expire", {nonce_s})
modparam("auth", "qop", "auth")
modparam("auth", "algorithm", "{algorithm}")
modparam("auth", "nonce_count", 1)

request_route {{
    xlog("L_ALERT", "request $rm $ru from $proto:$si:$sp route <$(hdr(Route)[*])>\\n");
    if (!mf_process_maxfwd_header("70")) {{
        sl_send_reply("483", "Too Many Hops");
        exit;
    }}
    if (is_method("CANCEL")) {{
        if (t_check_trans()) t_relay();
        exit;
    }}
    if (has_totag()) {{
        if (loose_route()) t_relay();
        else if (!is_method("ACK")) sl_send_reply("404", "Not Here");
        else if (t_check_trans()) t_relay();
        exit;
    }}
    if (is_method("OPTIONS") && $rU == $null) {{
        sl_send_reply("200", "OK");
        exit;
    }}
    t_check_trans();
    if (is_method("REGISTER")) {{
        route(DIGEST);
        if (!save("location")) sl_reply_error();
        xlog("L_ALERT", "registered $au as $ct for $hdr(Expires)\\n");
        exit;
    }}
    if (is_method("INVITE")) {{
        {challenge}
        record_route();
    }}
    if (lookup("location")) {{
        t_relay();
        exit;
    }}
    {forward}
    sl_send_reply("404", "Nobody Here");
}}

route[DIGEST] {{
    $var(password) = "";
{passwords}
    if ($var(password) == "" || !pv_auth_check("{realm}", "$var(password)", "0", "0")) {{
        if (is_method("REGISTER")) www_challenge("{realm}", "1");
        else proxy_challenge("{realm}", "1");
        exit;
    }}
    consume_credentials();
}}
"""

TLS = """\
modparam("tls", "private_key", "{key}")
modparam("tls", "certificate", "{certificate}")
modparam("tls", "ca_list", "{ca}")
modparam("tls", "verify_certificate", 1)
modparam("tls", "require_certificate", 1)
modparam("tls", "tls_method", "TLSv1.2+")
"""


class Kamailio(Process):
    """
    One Kamailio on UDP and TCP of one port of 127.0.0.1.

    Args:
        gateway: Where calls to numbers go that nobody has registered; none without it.
        transport: How they travel there, ``udp``, ``tcp`` or ``tls``.
        tls: Its certificate and the file of whom it trusts; it then listens for TLS two ports higher, and
            both asks for certificates and shows its own.
        users: Who may register, with passwords; a call to a registered user goes to its contact.
        challenge: Ask for a digest also of each INVITE that begins a dialog.
        algorithm: Of the digest, ``MD5`` or ``SHA-256``.
        nonce_s: How long a nonce is good; a later use of it is answered as stale.
        min_expires: The shortest registration; a shorter one is made as long.
        max_expires: The longest one; a longer one is cut.
    """

    def __init__(
        self,
        ports: Ports,
        folder: Path,
        *,
        gateway: Address | None = None,
        transport: str = "udp",
        tls: tuple[Pair, Path] | None = None,
        users: Mapping[str, str] | None = None,
        challenge: bool = False,
        algorithm: str = "MD5",
        nonce_s: int = 300,
        min_expires: int = 1,
        max_expires: int = 3600,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.transport = transport
        self.sip: Address = ("127.0.0.1", ports.take(4))
        self.tls: Address = (self.sip[0], self.sip[1] + 2)
        self.probe_port = ports.take(2)
        lines = [
            f'    if ($au == "{name}") $var(password) = "{word}";' for name, word in (users or {}).items()
        ]
        target = f"sip:{gateway[0]}:{gateway[1]};transport={transport}" if gateway else ""
        loaded, listen, parameters = LOADED, "", ""
        if tls is not None:
            pair, ca = tls
            loaded = (*LOADED, "tls")
            listen = f"enable_tls=yes\nlisten=tls:{self.tls[0]}:{self.tls[1]}"
            parameters = TLS.format(key=pair.private_key, certificate=pair.certificate, ca=ca)
        config = CONFIG.format(
            tls_listen=listen,
            tls_parameters=parameters,
            realm=REALM,
            host=self.sip[0],
            port=self.sip[1],
            modules=MODULES,
            load="\n".join(f'loadmodule "{name}.so"' for name in loaded),
            algorithm=algorithm,
            nonce_s=nonce_s,
            min_expires=min_expires,
            max_expires=max_expires,
            challenge="route(DIGEST);" if challenge else "",
            forward=f'$du = "{target}"; t_relay(); exit;' if target else "",
            passwords="\n".join(lines),
        )
        file = folder / "kamailio.cfg"
        file.write_text(config)
        command = ["kamailio", "-f", str(file), "-DD", "-E", "-Y", str(folder), "-m", "32", "-M", "4"]
        super().__init__(command, folder / "kamailio.log", ready=self.is_ready)

    def is_ready(self) -> bool:
        """Whether it answers an OPTIONS."""
        host, port = self.sip
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", self.probe_port))
            probe.settimeout(0.2)
            headers = [
                ("Via", f"SIP/2.0/UDP 127.0.0.1:{self.probe_port};branch={sip_text.branch()}"),
                ("Max-Forwards", "70"),
                ("From", "<sip:kit@127.0.0.1>;tag=kit"),
                ("To", f"<sip:{host}>"),
                ("Call-ID", sip_text.branch()),
                ("CSeq", "1 OPTIONS"),
            ]
            try:
                probe.sendto(sip_text.write(f"OPTIONS sip:{host}:{port} SIP/2.0", headers), self.sip)
                return sip_text.read(probe.recv(65535)).status == 200
            except (TimeoutError, ConnectionRefusedError):
                return False

    def requests(self, method: str) -> list[tuple[str, str]]:
        """Return transport with source, and Route headers, of each request of a method that came in."""
        pattern = rf"request {method} \S+ from (\S+) route <(.*)>"
        return re.findall(pattern, self.log)

    def registered(self, user: str) -> list[str]:
        """Return the contacts of each successful REGISTER of a user, in order."""
        return re.findall(rf"registered {re.escape(user)} as (\S+)", self.log)
