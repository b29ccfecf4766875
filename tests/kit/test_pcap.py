from __future__ import annotations

import pytest

from tests.kit import pcap, sound


def test_audio_comes_back_in_20_ms_packets(tmp_path):
    pcm = sound.utterance(3, 0.5)
    packets = list(pcap.read(pcap.write_audio(tmp_path / "a.pcap", pcm)))
    assert [packet.at for packet in packets] == pytest.approx([n * 0.02 for n in range(25)])
    assert [packet.sequence for packet in packets] == list(range(1, 26))
    assert [packet.timestamp for packet in packets] == [n * 160 for n in range(25)]
    assert [packet.marker for packet in packets] == [True] + [False] * 24
    assert {packet.payload_type for packet in packets} == {0}
    assert sound.encode(pcm) == b"".join(packet.payload for packet in packets)


def test_alaw_has_its_payload_type(tmp_path):
    packet = next(pcap.read(pcap.write_audio(tmp_path / "a.pcap", sound.tone(400, 0.02), codec="PCMA")))
    assert (packet.payload_type, packet.source, packet.target) == (
        8,
        ("127.0.0.1", 6000),
        ("127.0.0.1", 6002),
    )


def test_what_is_not_rtp_is_passed_over(tmp_path):
    path = pcap.write_audio(tmp_path / "a.pcap", sound.tone(400, 0.04))
    data = bytearray(path.read_bytes())
    data[24 + 16 + 14 + 9] = 6  # the first packet becomes TCP
    path.write_bytes(data)
    assert [packet.sequence for packet in pcap.read(path)] == [2]
