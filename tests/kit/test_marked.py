"""The judgement of `make requirements` and `make reports`."""

from __future__ import annotations

import json

import pytest

from tests.kit import lists, marked
from tests.kit.marked import Result, judge
from tests.kit.tally import closing_line


def test_a_passing_test_for_each_id_is_no_problem():
    results = [Result("L-1", "t::a", "passed"), Result("L-2", "t::b", "passed")]
    assert judge(results, wanted=["L-1", "L-2"], known=["L-1", "L-2"]) == []


def test_an_id_without_a_test_is_a_problem():
    assert judge([], wanted=["L-1"], known=["L-1"]) == ["L-1: no test"]


@pytest.mark.parametrize("outcome", ["failed", "skipped", "xfailed", ""])
def test_a_test_that_did_not_pass_is_a_problem_even_beside_one_that_did(outcome):
    results = [Result("L-1", "t::a", "passed"), Result("L-1", "t::b", outcome)]
    assert judge(results, wanted=["L-1"], known=["L-1"]) == [f"L-1: t::b {outcome}"]


def test_a_mark_with_an_unknown_id_is_a_problem():
    assert judge([Result("L-99", "t::a", "passed")], wanted=[], known=["L-1"]) == [
        "L-99: marked by t::a, but no such id"
    ]


def test_the_result_file_decides_and_the_table_names_the_test(tmp_path, capsys):
    path = tmp_path / "results.jsonl"
    rows = [{"test": f"t::{id_}", "outcome": "passed", "requirement": [id_]} for id_ in lists.requirements()]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert marked.main("requirements", str(path)) == 0
    assert "L-9     passed   t::L-9" in capsys.readouterr().out
    path.write_text("\n".join(map(json.dumps, rows[1:])))
    assert marked.main("requirements", str(path)) == 1
    assert f"{lists.requirements()[0]}: no test" in capsys.readouterr().out


def test_the_committed_lists_agree_with_the_shared_ones_where_they_are():
    shared = lists.shared_reports()
    for category, ids in lists.finished_reports().items():
        assert ids, category
        assert not shared or sorted(ids) == sorted(shared[category])
    known = lists.shared_requirements()
    assert not known or set(lists.requirements()) <= set(known)
    assert len(set(lists.requirements())) == len(lists.requirements()) == 50


def test_the_closing_line_counts_every_run(tmp_path):
    (tmp_path / "a").write_text('{"outcome": "passed"}\n{"outcome": "failed"}\n')
    (tmp_path / "b").write_text('{"outcome": "passed"}\n{"outcome": "xfailed"}\n{"outcome": "skipped"}\n')
    assert closing_line([tmp_path / "a", tmp_path / "b"]) == "2 passed, 1 failed, 2 skipped"
