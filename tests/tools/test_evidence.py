import pytest

from tools.evidence import project

VALUES = {
    "arguments": {"query": "prices", "token": "s3cr3t"},
    "output": {"passages": [{"document": "A", "text": "x"}, {"document": "B", "text": "y"}], "found": False},
}


@pytest.mark.parametrize(
    ("paths", "evidence"),
    [
        ((), {}),
        (("arguments.query",), {"arguments.query": "prices"}),
        (("output.passages.document",), {"output.passages.document": ["A", "B"]}),
        (("output.found",), {"output.found": False}),
        (("output.nothing", "arguments.query.below"), {}),
    ],
)
def test_only_values_along_declared_paths_are_taken(paths, evidence):
    assert project(paths, VALUES) == evidence
