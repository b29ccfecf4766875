"""Loads the project's rules for a test run; the helpers that tests share are in tests/kit."""

pytest_plugins = ["tests.kit.plugin"]
