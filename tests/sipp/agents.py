"""Each agent of the suite's gateway does one thing; a number names it, and an address names the trunk."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
AGENTS = {
    "talk": "+12125550100",
    "goodbye": "+12125550101",
    "transfer": "+12125550102",
    "listen": "+12125550103",
    "keys": "+12125550104",
    "slow": "+12125550105",
    "refused": "+12125550106",
}
"""Each agent, named like its scene, and its number."""
TRUNKS = {
    "loopback": {"allow": ["127.0.0.1", "::1"]},
    "narrow": {"allow": ["127.0.0.2"], "max_calls": 1},
    "european": {"allow": ["127.0.0.3"], "codecs": ["PCMA"]},
    "american": {"allow": ["127.0.0.4"], "codecs": ["PCMU"]},
    "guarded": {
        "allow": ["127.0.0.5"],
        "auth": {"username": "alice", "password": "open-sesame"},
    },
    "known": {"allow": ["127.0.0.6"], "username": "trunk", "password": "trunk-secret"},
}


def settings(folder: Path) -> dict[str, object]:
    scripts = {"fake": "script", "slow": "slow", "refused": "refused"}
    return {
        "server": {
            "sip": {
                "timers": {"t1_ms": 100, "t2_ms": 800, "t4_ms": 500},
                "refer_timeout_s": 2,
            }
        },
        "trunks": TRUNKS,
        "providers": {
            name: {"kind": "fake", "script": str(HERE / f"{file}.yaml")} for name, file in scripts.items()
        },
        "agents": {name: agent(name, name if name in scripts else "fake") for name in AGENTS},
        "numbers": {number: {"agent": name} for name, number in AGENTS.items()},
        "storage": {"recordings": str(folder / "recordings")},
    }


def agent(scene: str, provider: str) -> dict[str, object]:
    return {
        "providers": [provider],
        "prompt": f"Scene: {scene}",
        "greeting": None if scene in ("listen", "keys") else "Begin.",
        "tools": {
            "transfer_call": {"enabled": True, "numbers": [{"number": "+12125551234", "label": "Sales"}]}
        },
    }
