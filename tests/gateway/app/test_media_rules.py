"""From the settings of trunks to how the audio of their calls is treated."""

import textwrap

from config.load import load
from gateway.app.trunks import media_rules
from gateway.net.media_stream import MediaRules
from gateway.rtp.delay import JitterLimits


def rules(tmp_path, text: str) -> dict[str, MediaRules]:
    path = tmp_path / "trunkline.yaml"
    path.write_text(textwrap.dedent(text))
    return media_rules(load(path).settings)


def test_a_trunk_that_says_nothing_has_the_defaults_of_the_code(tmp_path):
    assert rules(tmp_path, "trunks: {carrier: {allow: [192.0.2.0/24]}}") == {"carrier": MediaRules()}


def test_what_a_trunk_and_the_server_say_reaches_the_media(tmp_path):
    found = rules(
        tmp_path,
        """
        server: {sip: {media_timeout_s: 12.5, hold_timeout_s: 600}}
        trunks:
          office:
            allow: [192.0.2.0/24]
            symmetric_rtp: strict
            jitter_ms: {min: 20, max: 120}
            inband_dtmf: true
        """,
    )
    assert found == {
        "office": MediaRules(
            lost_after_ms=12_500,
            held_after_ms=600_000,
            jitter=JitterLimits(20, 120),
            strict=True,
            inband=True,
        )
    }
