"""D-1 and D-2: the packages that the product's owner named, and where the parts of the project stand."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("gateway", "providers", "tools", "config")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def imports(*folders: str) -> dict[str, set[str]]:
    """Return each imported module with the files that import it, read from their syntax trees."""
    found: dict[str, set[str]] = {}
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                names = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                    names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                for name in names:
                    found.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    return found


def users(module: str, *folders: str) -> set[str]:
    """Return the files that import a module or anything in it."""
    every = imports(*folders)
    return {file for name, files in every.items() if f"{name}.".startswith(f"{module}.") for file in files}


def declared(extra: str | None = None) -> set[str]:
    project = PROJECT["project"]
    wanted = project["optional-dependencies"][extra] if extra else project["dependencies"]
    return {re.match(r"[A-Za-z0-9._-]+", line)[0].lower() for line in wanted}


@pytest.mark.requirement("D-1")
@pytest.mark.parametrize(
    ("package", "module", "user"),
    [
        ("websockets", "websockets", "providers/openai/provider.py"),
        ("numpy", "numpy", "gateway/media/g711.py"),
        ("soundfile", "soundfile", "gateway/calls/flac.py"),
        ("openai", "openai", "providers/openai/provider.py"),
        ("google-genai", "google.genai", "providers/gemini/config.py"),
        ("structlog", "structlog", "gateway/telemetry/logs.py"),
    ],
)
def test_a_package_of_the_design_card_is_a_dependency_that_the_product_imports(package, module, user):
    assert package in declared()
    assert user in users(module, *PRODUCT)


@pytest.mark.requirement("D-1")
def test_aiortc_is_an_extra_and_the_oracle_of_our_rtp():
    assert "aiortc" in declared("webrtc")
    assert {"tests/gateway/rtp/test_packet.py", "tests/gateway/rtp/test_rtcp.py"} <= users("aiortc", "tests")


@pytest.mark.requirement("D-1")
async def test_pytest_asyncio_runs_the_tests_that_are_coroutines(request):
    assert "pytest-asyncio" in declared("test")
    assert PROJECT["tool"]["pytest"]["ini_options"]["asyncio_mode"] == "auto"
    assert request.config.pluginmanager.hasplugin("asyncio")


@pytest.mark.requirement("D-1")
def test_the_project_is_python_and_every_package_is_locked():
    assert PROJECT["project"]["requires-python"].startswith(">=3.")
    locked = set(re.findall(r"^([a-z0-9._-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    named = {"aiortc", "websockets", "numpy", "soundfile", "openai", "google-genai", "structlog"}
    assert named | {"pytest-asyncio"} <= locked


@pytest.mark.requirement("D-1")
def test_no_dependency_stands_there_unused():
    """A list that nothing imports is what the card warns of; uvicorn's parser is named by a string."""
    modules = {
        "google-genai": "google.genai",
        "ruamel.yaml": "ruamel.yaml",
        "prometheus-client": "prometheus_client",
        "dnspython": "dns",
        "pyopenssl": "OpenSSL",
    }
    every = imports(*PRODUCT)
    for package in declared() - {"httptools"}:
        module = modules.get(package, package.replace("-", "_"))
        assert any(f"{name}.".startswith(f"{module}.") for name in every), package


@pytest.mark.requirement("D-2")
@pytest.mark.parametrize("name", ["gateway", "providers", "tools", "config", "tests", "deploy"])
def test_a_part_of_the_design_card_is_a_folder_at_the_top_with_code_in_it(name):
    assert list((ROOT / name).rglob("*.py"))


@pytest.mark.requirement("D-2")
def test_the_four_packages_are_what_is_shipped():
    assert (ROOT / "pyproject.toml").is_file()
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == list(PRODUCT)
    assert all((ROOT / name / "__init__.py").is_file() for name in PRODUCT)
