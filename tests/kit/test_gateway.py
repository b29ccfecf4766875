from __future__ import annotations

from tests.kit.gateway import read_metrics, with_ports


def test_metrics_are_read_with_their_labels():
    text = '# HELP a b\n# TYPE a gauge\na 3\nb{x="1",y="z"} 4.5e+01\nc_total 0.0\n'
    assert read_metrics(text) == {"a": 3.0, 'b{x="1",y="z"}': 45.0, "c_total": 0.0}


def test_ports_are_put_beside_what_the_test_says_about_the_server():
    settings = {"server": {"drain_s": 5, "sip": {"max_calls": 2}}, "agents": {}}
    server = with_ports(settings, ("127.0.0.1", 5), ("127.0.0.1", 6), "10-19")["server"]
    assert server == {
        "drain_s": 5,
        "sip": {
            "max_calls": 2,
            "listen": ["udp:127.0.0.1:5", "tcp:127.0.0.1:5"],
            "public_address": "127.0.0.1",
            "rtp_ports": "10-19",
        },
        "http": {"listen": "127.0.0.1:6"},
    }
