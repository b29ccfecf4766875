"""The checker of sizes, words, links and the lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit import tree

PROJECT = """
[project]
name = "thing"
dependencies = ["numpy>=2.3", "Foo.Bar>=1; sys_platform == 'linux'"]
[project.optional-dependencies]
test = ["pytest[extra]>=9"]
"""
LOCK = """# comment
foo-bar==1.5 ; sys_platform == 'linux' \\
    --hash=sha256:aa
    # via thing (pyproject.toml)
numpy==2.3.1 \\
    --hash=sha256:bb \\
    --hash=sha256:cc
    # via
    #   thing (pyproject.toml)
    #   other
pytest==9.0 \\
    --hash=sha256:dd
    # via thing (pyproject.toml)
"""


def test_a_lock_that_answers_the_project_has_no_fault():
    assert tree.lock_faults(PROJECT, LOCK) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("numpy==2.3.1", "numpy==2.2.0"), "pins numpy ['2.2.0'], wanted numpy>=2.3: make lock"),
        (("pytest==9.0", "pytest9==9.0"), "pins pytest nowhere, wanted pytest[extra]>=9: make lock"),
        (("    --hash=sha256:dd\n", ""), "has no hash for pytest"),
        (("# comment", "--index-url https://mirror.example"), "has an address: https://"),
    ],
)
def test_a_lock_that_does_not_answer_says_where(change, fault):
    assert fault in tree.lock_faults(PROJECT, LOCK.replace(*change))


def test_a_pin_that_nobody_asks_for_any_more_is_a_fault():
    project = PROJECT.replace('"numpy>=2.3", ', "")
    assert tree.lock_faults(project, LOCK) == [
        "pins numpy, which pyproject.toml does not ask for any more: make lock"
    ]


def test_long_files_and_functions_are_faults():
    body = "    pass\n" * 60
    assert list(tree.too_long(Path("a.py"), f"def long():\n{body}")) == [
        "long() has 61 lines, 60 are allowed"
    ]
    assert list(tree.too_long(Path("a.py"), "def short():\n" + "    pass\n" * 59)) == []
    assert list(tree.too_long(Path("a.py"), "x = 1\n" * 501)) == ["501 lines, 500 are allowed"]


def test_words_of_unfinished_work_are_faults_in_the_product_only():
    assert list(tree.unfinished("gateway/a.py", "x = 1\n# TODO later\n")) == ["line 2 says 'TODO'"]
    assert list(tree.unfinished("tests/a.py", "# TODO later\n")) == []


def test_paths_of_one_machine_are_faults():
    assert list(tree.one_machine("a.md", "see\n/home/joe/x")) == [
        "line 2 names a path of one machine: /home/joe/"
    ]


def test_links_to_missing_files_are_faults(tmp_path):
    (tmp_path / "there.md").touch()
    text = "[a](there.md#part) [b](gone.md) [c](https://x.example/y) [d](#here)"
    assert list(tree.dead_links(tmp_path / "README.md", text)) == ["links to gone.md, which is not there"]
