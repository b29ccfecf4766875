from pathlib import Path
from textwrap import dedent

import pytest

from config.errors import ConfigError
from config.load import load

GOOD = """\
trunks:
  office: {allow: ["192.0.2.10"]}
providers:
  openai: {api_key: "${env:OPENAI_API_KEY}"}
agents:
  reception: {providers: [openai], prompt: You answer the phone.}
numbers:
  "+12125550100": {agent: reception}
"""
ENVIRON = {"OPENAI_API_KEY": "sk-test-0123456789"}


class Folder:
    """A folder with a configuration in it, and what comes of loading it."""

    def __init__(self, path: Path):
        self.path = path
        self.file = path / "gateway.yaml"

    def write(self, text: str, name: str = "gateway.yaml") -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        return path

    def load(self, text: str | None = None, **options):
        if text is not None:
            self.write(text)
        return load(self.file, **{"environ": ENVIRON, **options})

    def problems(self, text: str | None = None, **options) -> list[str]:
        """Return the lines without the folder in front of the file name."""
        with pytest.raises(ConfigError) as caught:
            self.load(text, **options)
        assert str(caught.value) == "\n".join(str(p) for p in caught.value.problems)
        return [str(problem).replace(f"{self.path}/", "") for problem in caught.value.problems]


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


@pytest.fixture
def good():
    return GOOD
