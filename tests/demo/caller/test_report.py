import dataclasses

import numpy as np
import pytest

from deploy.demo.caller import g711
from deploy.demo.caller.media import Packet, parse_rtp
from deploy.demo.caller.report import measure, read_wav, reassemble, write_wav

LOUD = g711.encode(np.full(160, 8000, np.int16))


def stream(count, *, start=100.0, ssrc=1, first=65530, payload=LOUD):
    """Return packets that arrive exactly each 20 ms; the sequence wraps early."""
    return [
        Packet(
            start + 0.02 * k,
            k == 0,
            0,
            (first + k) & 0xFFFF,
            (4294967000 + 160 * k) & 0xFFFFFFFF,
            ssrc,
            payload,
        )
        for k in range(count)
    ]


def test_a_perfect_stream_has_no_jitter_no_loss_and_gaps_of_20_ms():
    figures = measure(stream(50))

    assert (figures.packets, figures.lost, figures.reordered, figures.ssrcs) == (50, 0, 0, 1)
    assert figures.jitter_ms == 0.0
    assert figures.longest_gap_ms == pytest.approx(20.0, abs=0.1)


def test_a_lost_packet_is_counted_across_the_sequence_wrap():
    packets = stream(50)
    del packets[6]

    assert measure(packets).lost == 1


def test_a_late_packet_is_reordered_and_not_lost():
    packets = stream(10)
    packets[4], packets[5] = packets[5], packets[4]

    assert (measure(packets).lost, measure(packets).reordered) == (0, 1)


def test_a_packet_5_ms_late_shows_in_the_spacing_and_the_jitter():
    packets = stream(100)
    packets[50] = dataclasses.replace(packets[50], at=packets[50].at + 0.005)
    figures = measure(packets)

    assert figures.longest_gap_ms == pytest.approx(25.0, abs=0.1)
    assert figures.jitter_ms == pytest.approx(5 / 16 + (5 - 5 / 16) / 16, abs=0.02)


def test_a_pause_before_a_marker_is_no_gap():
    packets = [*stream(10), Packet(110.0, True, 0, 4, 4294967000 + 160 * 10 & 4294967295, 1, LOUD)]

    assert measure(packets).longest_gap_ms == pytest.approx(20.0, abs=0.1)


def test_audio_is_laid_out_by_timestamp_with_silence_where_a_packet_is_missing():
    packets = stream(5, start=100.1)
    del packets[2]
    track = reassemble(packets, 100.0)
    levels = [int(abs(track[at : at + 160].astype(int)).mean()) for at in range(800, len(track), 160)]

    assert not track[:800].any()
    assert [level > 7000 for level in levels] == [True, True, False, True, True]


def test_a_new_ssrc_begins_at_its_own_arrival():
    packets = stream(2, start=100.0) + stream(2, start=101.0, ssrc=2, first=5)
    track = reassemble(packets, 100.0)

    assert track[8000:8320].any()
    assert not track[320:8000].any()


@pytest.mark.parametrize("data", [b"", b"\x80\x00", b"\x00" * 20])
def test_what_is_no_rtp_is_nothing(data):
    assert parse_rtp(data, 0.0) is None


def test_padding_csrcs_and_an_extension_are_not_audio():
    header = b"\xb1\x80\x00\x01" + b"\x00\x00\x00\x02" + b"\x00\x00\x00\x03"
    packet = parse_rtp(header + b"CSRC" + b"\xbe\xde\x00\x01EXTN" + b"audio" + b"\x00\x00\x03", 1.0)

    assert packet is not None
    assert packet.payload == b"audio"
    assert packet.marker


def test_a_wav_file_returns_what_was_written(tmp_path):
    pcm = np.arange(-500, 500).astype(np.int16)
    write_wav(tmp_path / "a.wav", pcm)

    assert np.array_equal(read_wav(tmp_path / "a.wav"), pcm)
