"""
A real Asterisk in a chroot (``tests/peers/asterisk/build.sh``), configured for each test run.

It is a PBX with a trunk to the gateway and one extension that the gateway may register: a call is begun on
its console, and a dial plan of ours says what its caller does. Facts that cost time: a channel can be
transferred by REFER only while it is bridged, so the caller is a Local channel; ``-f`` keeps it in the
foreground, so that ``Process`` ends it; sound files are named without their ending.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from tests.kit import sound
from tests.kit.ports import Ports
from tests.kit.process import Process
from tests.kit.sound import Pcm
from tests.kit.udp import Address

CHROOT_FOLDER = "/etc/trunkline-test"
UNNEEDED = (
    "chan_console", "chan_iax2", "chan_motif", "chan_unistim", "chan_mobile", "chan_ooh323", "pbx_dundi",
    "res_config_mysql", "res_config_pgsql", "res_config_odbc", "res_config_ldap", "res_odbc", "res_snmp",
    "res_xmpp", "res_hep", "res_corosync", "res_timing_pthread", "res_timing_dahdi", "app_voicemail",
    "app_voicemail_imap", "cdr_csv", "res_phoneprov", "res_pjsip_phoneprov_provider", "res_http_websocket",
)  # fmt: skip
MAIN = """\
[directories]
astetcdir => {folder}
astmoddir => /usr/lib/x86_64-linux-gnu/asterisk/modules
astvarlibdir => /var/lib/asterisk
astdbdir => {folder}/run
astkeydir => /var/lib/asterisk
astdatadir => /usr/share/asterisk
astagidir => /usr/share/asterisk/agi-bin
astspooldir => {folder}/run
astrundir => {folder}/run
astlogdir => {folder}/run
astsbindir => /usr/sbin
[options]
verbose = 3
"""
PJSIP = """\
[global]
type=global
endpoint_identifier_order=username,ip
[udp]
type=transport
protocol=udp
bind=127.0.0.1:{port}
[tcp]
type=transport
protocol=tcp
bind=127.0.0.1:{port}
[gateway]
type=endpoint
context=from-gateway
disallow=all
allow={codecs}
aors=gateway
direct_media=no
dtmf_mode={dtmf_mode}
moh_passthrough=yes
timers=yes
[gateway]
type=aor
contact=sip:{gateway}{transport}
[caller]
type=endpoint
context=to-gateway
disallow=all
allow={codecs}
aors=caller
direct_media=no
[caller]
type=aor
max_contacts=1
[200]
type=endpoint
context=from-gateway
disallow=all
allow={codecs}
aors=200
auth=200
direct_media=no
[200]
type=auth
auth_type=digest
username=200
password=registered-secret
[200]
type=aor
max_contacts=1
remove_existing=yes
[by-address]
type=identify
endpoint=gateway
match=127.0.0.1
"""
EXTENSIONS = """\
[callers]
exten => silent,1,Answer()
 same => n,Wait(60)
exten => talks,1,Answer()
 same => n,Wait(0.5)
 same => n,Playback({folder}/words)
 same => n,Wait(60)
exten => _keys-X.,1,Answer()
 same => n,Wait(0.5)
 same => n,SendDTMF(${{EXTEN:5}},150,150)
 same => n,Wait(60)
exten => records,1,Answer()
 same => n,Record({folder}/heard.ulaw,0,30,kq)
exten => brief,1,Answer()
 same => n,Wait(1)
[to-gateway]
exten => _[+0-9]!,1,Dial(PJSIP/${{EXTEN}}@gateway,30,g)
 same => n,Verbose(1,DIALLED ${{DIALSTATUS}} ${{HANGUPCAUSE}})
[to-registered]
exten => _[+0-9]!,1,Dial(${{PJSIP_DIAL_CONTACTS(200)}},30,g)
 same => n,Verbose(1,DIALLED ${{DIALSTATUS}} ${{HANGUPCAUSE}})
[from-gateway]
exten => +12125551234,1,Answer()
 same => n,Verbose(1,SALES REACHED callerid ${{CALLERID(num)}})
 same => n,Playback({folder}/sales)
 same => n,Wait(30)
exten => busy,1,Busy(1)
"""


class Asterisk(Process):
    """
    One Asterisk on UDP and TCP of one port of 127.0.0.1.

    Args:
        chroot: The folder that ``build.sh`` made.
        gateway: Where its trunk goes.
        transport: How it calls the gateway, ``udp`` or ``tcp``.
        codecs: In Asterisk's words, such as ``ulaw,alaw``.
        dtmf_mode: ``rfc4733``, ``info`` or ``inband``.
        words: What the caller ``talks`` says.
        sales: What the transfer's target says.
        port: Its port, where somebody has to know it beforehand.
    """

    def __init__(
        self,
        chroot: Path,
        ports: Ports,
        folder: Path,
        *,
        gateway: Address,
        transport: str = "udp",
        codecs: str = "ulaw,alaw",
        dtmf_mode: str = "rfc4733",
        words: Pcm | None = None,
        sales: Pcm | None = None,
        port: int = 0,
    ) -> None:
        self.root = chroot / "root"
        self.sip: Address = ("127.0.0.1", port or ports.take(2))
        rtp = ports.take(100)
        here = self.root / CHROOT_FOLDER.lstrip("/")
        shutil.rmtree(here, ignore_errors=True)
        (here / "run").mkdir(parents=True)
        for name, pcm in (("words", words), ("sales", sales)):
            (here / f"{name}.ulaw").write_bytes(sound.encode(sound.silence(0.2) if pcm is None else pcm))
        written = {
            "folder": CHROOT_FOLDER,
            "port": self.sip[1],
            "codecs": codecs,
            "dtmf_mode": dtmf_mode,
            "gateway": f"{gateway[0]}:{gateway[1]}",
            "transport": ";transport=tcp" if transport == "tcp" else "",
        }
        files = {
            "asterisk.conf": MAIN.format(**written),
            "pjsip.conf": PJSIP.format(**written),
            "extensions.conf": EXTENSIONS.format(**written),
            "rtp.conf": f"[general]\nrtpstart={rtp}\nrtpend={rtp + 99}\n",
            "logger.conf": "[general]\n[logfiles]\nconsole => notice,warning,error,verbose\n",
            "modules.conf": "[modules]\nautoload=yes\n" + "".join(f"noload = {m}.so\n" for m in UNNEEDED),
        }
        for name, text in files.items():
            (here / name).write_text(text)
        folder.mkdir(parents=True, exist_ok=True)
        command = ["chroot", str(self.root), "asterisk", "-f", "-n", "-C", f"{CHROOT_FOLDER}/asterisk.conf"]
        super().__init__(command, folder / "asterisk.log", ready=self.is_ready)

    def is_ready(self) -> bool:
        """Whether all its modules are loaded."""
        return "fully booted" in self.console("core waitfullybooted")

    def console(self, command: str) -> str:
        """Return what its console says to a command."""
        base = ["chroot", str(self.root), "asterisk", "-C", f"{CHROOT_FOLDER}/asterisk.conf", "-rx", command]
        return subprocess.run(base, capture_output=True, text=True, timeout=20).stdout

    def call(self, caller: str, called: str, *, context: str = "to-gateway") -> None:
        """Let one of the dial plan's callers call; returns at once."""
        self.console(f"channel originate Local/{caller}@callers extension {called}@{context}")

    def wait_for(self, pattern: str, timeout: float) -> None:
        """Wait for words on its console, such as ``SALES REACHED``."""
        self.until(lambda: re.search(pattern, self.log), timeout, f"at {pattern!r}")

    @property
    def heard(self) -> Pcm:
        """What the caller ``records`` has heard so far."""
        file = self.root / CHROOT_FOLDER.lstrip("/") / "heard.ulaw"
        return sound.decode(file.read_bytes()) if file.exists() else sound.silence(0)

    def channels(self) -> int:
        """Return how many channels there are now."""
        found = re.search(r"(\d+) active channels?", self.console("core show channels"))
        return int(found[1]) if found else -1
