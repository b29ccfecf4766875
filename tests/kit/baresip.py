"""
Debian's baresip as a real telephone without a sound card: it says a file and records what it hears.

Facts that cost time: ``net_interface`` takes an address, not ``lo``; only ``aubridge`` plays to nobody, and
``sndfile`` then records both directions into ``snd_path``; commands come in with ``-e``; it hangs up at the
end of the file that it says, so silence follows the words.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from tests.kit import sound
from tests.kit.ports import Ports
from tests.kit.process import Process
from tests.kit.sound import Pcm
from tests.kit.udp import Address

MODULES = "/usr/lib/baresip/modules"
MODULE_OF = {"srtp": "srtp.so", "srtp-mand": "srtp.so", "srtp-mandf": "srtp.so", "dtls_srtp": "dtls_srtp.so"}
CONFIG = """\
poll_method epoll
sip_listen 127.0.0.1:{sip}
net_interface 127.0.0.1
call_local_timeout 60
call_max_calls 4
audio_player aubridge,nil
audio_source aufile,{words}
audio_alert aubridge,nil
ausrc_srate 8000
auplay_srate 8000
ausrc_channels 1
auplay_channels 1
rtp_ports {first}-{last}
rtcp_mux {mux}
jitter_buffer_type fixed
jitter_buffer_delay 1-5
snd_path {folder}
module_path {modules}
module g711.so
module aufile.so
module aubridge.so
module sndfile.so
{module}module_app account.so
module_app menu.so
"""


class Baresip(Process):
    """
    One baresip that calls at once, or answers every call.

    Args:
        uri: Whom it calls, such as ``sip:reception@127.0.0.1:5060``; ``;transport=tcp`` works. ``None``
            lets it wait at ``sip:baresip@`` and :attr:`sip`, and answer.
        folder: An empty folder for its configuration and recordings.
        words: What it says from the answer on.
        seconds: When it ends by itself.
        mediaenc: How it protects its audio, a key of :data:`MODULE_OF`; empty for not at all.
        mux: Whether it offers RTCP on the port of RTP.
        ca: Whom it trusts; needed for ``;transport=tls``.
        password: What it answers a challenge with, as user ``baresip``.
        certificate: What it shows when it is asked for a certificate: a file with key and certificate.
    """

    def __init__(
        self,
        uri: str | None,
        ports: Ports,
        folder: Path,
        *,
        words: Pcm,
        seconds: int = 60,
        mediaenc: str = "",
        mux: bool = False,
        ca: Path | None = None,
        certificate: Path | None = None,
        password: str = "",
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        media = ports.take(8)
        self.sip: Address = ("127.0.0.1", ports.take(2))
        config = CONFIG.format(
            sip=self.sip[1],
            words=sound.write(folder / "words.wav", np.concatenate((words, sound.silence(seconds)))),
            first=media,
            last=media + 7,
            folder=folder,
            modules=MODULES,
            module=f"module {MODULE_OF[mediaenc]}\n" if mediaenc else "",
            mux="yes" if mux else "no",
        )
        config += f"sip_cafile {ca}\n" if ca else ""
        config += f"sip_certificate {certificate}\n" if certificate else ""
        (folder / "config").write_text(config)
        encryption = f";mediaenc={mediaenc}" if mediaenc else ""
        proof = f";auth_user=baresip;auth_pass={password}" if password else ""
        account = f"<sip:baresip@127.0.0.1>;regint=0;audio_codecs=PCMU{encryption}{proof}"
        account += "\n" if uri else ";answermode=auto\n"
        (folder / "accounts").write_text(account)
        (folder / "contacts").touch()
        dial = ["-e", f"/dial {uri}"] if uri else []
        command = ["baresip", "-f", str(folder), *dial, "-t", str(seconds)]
        super().__init__(command, folder / "baresip.log")

    def wait_for(self, pattern: str, timeout: float) -> None:
        """Wait for words in its log, such as ``Call established`` or ``session closed``."""
        self.until(lambda: re.search(pattern, self.log), timeout, f"at {pattern!r}")

    @property
    def heard(self) -> Pcm:
        """What it has heard so far, from its recording of the decoded sound."""
        found = sorted(self.folder.glob("dump-*-dec.wav"))
        return sound.read(found[-1]) if found else sound.silence(0)
