"""
Debian's linphonec as a telephone without a sound card: it is typed to, and says words from a file.

Facts that cost time: it wants a home folder for its database; with IPv6 on the machine it offers IPv6 media
to whomever; ``soundcard use files`` is the mode without a card, in which ``play`` says a file and ``record``
keeps what is heard; a digit that is typed is sent as a key; ``pause`` holds. It reads commands from standard
input, here a pipe that stays open.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.kit import sound
from tests.kit.ports import Ports
from tests.kit.process import Process
from tests.kit.sound import Pcm
from tests.kit.udp import Address

CONFIG = """\
[sip]
sip_port={sip}
sip_tcp_port={sip}
guess_hostname=0
contact=sip:linphone@127.0.0.1
media_encryption={encryption}
media_encryption_mandatory={mandatory}
[rtp]
audio_rtp_port={rtp}
download_ptime=20
[net]
mtu=1300
[video]
display=0
capture=0
"""


class Linphone(Process):
    """
    One linphonec; :meth:`tell` it what to do.

    Args:
        folder: An empty folder for its configuration, its home and its recording.
        words: What ``play`` says.
        encryption: How it protects its audio, without exception: ``srtp`` or ``dtls``; empty for not at all.
    """

    def __init__(self, ports: Ports, folder: Path, *, words: Pcm, encryption: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".local" / "share" / "linphone").mkdir(parents=True)
        self.folder = folder
        self.sip: Address = ("127.0.0.1", ports.take(2))
        config = CONFIG.format(
            sip=self.sip[1],
            rtp=ports.take(4),
            encryption=encryption or "none",
            mandatory=int(bool(encryption)),
        )
        (folder / "linphonerc").write_text(config)
        self.words = sound.write(folder / "words.wav", words)
        pipe = folder / "commands"
        os.mkfifo(pipe)
        self.commands = os.open(pipe, os.O_RDWR)  # both ways, so that nobody waits for the other end
        command = ["sh", "-c", 'exec linphonec -c "$1" < "$2"', "sh", str(folder / "linphonerc"), str(pipe)]
        log = folder / "linphone.log"
        super().__init__(
            command, log, ready=lambda: "linphonec>" in log.read_text(), env={"HOME": str(folder)}
        )
        self.tell("soundcard use files")
        self.tell(f"record {folder / 'heard.wav'}")

    def tell(self, command: str) -> None:
        """Type one command."""
        os.write(self.commands, f"{command}\n".encode())

    def wait_for(self, pattern: str, timeout: float) -> None:
        """Wait for words of it, such as ``connected`` or ``ended``."""
        self.until(lambda: re.search(pattern, self.log), timeout, f"at {pattern!r}")

    def stop(self, timeout: float = 5.0) -> int:
        """Let it quit, so that its recording is whole; harmless when it has."""
        if self.commands >= 0:
            self.tell("quit")
            os.close(self.commands)
            self.commands = -1
        return super().stop(timeout)
