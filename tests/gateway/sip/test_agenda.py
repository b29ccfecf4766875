from hypothesis import given
from hypothesis import strategies as st

from gateway.sip.agenda import Agenda


def test_the_earliest_comes_first_and_only_when_due():
    agenda = Agenda()
    agenda.set("b", 2.0)
    agenda.set("a", 1.0)

    assert agenda.next() == 1.0
    assert agenda.take_due(0.9) is None
    assert [agenda.take_due(2.0), agenda.take_due(2.0), agenda.take_due(2.0)] == ["a", "b", None]
    assert agenda.next() is None


def test_a_moved_item_counts_once():
    agenda = Agenda()
    agenda.set("a", 1.0)
    agenda.set("a", 3.0)
    agenda.set("b", 2.0)
    agenda.set("b", None)

    assert agenda.next() == 3.0
    assert len(agenda) == 1


def test_the_heap_does_not_grow_with_moves():
    agenda = Agenda()
    for at in range(10_000):
        agenda.set("a", float(at))

    assert len(agenda._heap) < 200
    assert agenda.next() == 9_999.0


@given(st.lists(st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers(0, 9)))))
def test_it_agrees_with_a_plain_dictionary(steps):
    agenda, plain = Agenda(), {}
    for item, at in steps:
        agenda.set(item, at)
        if at is None:
            plain.pop(item, None)
        else:
            plain[item] = at
        assert agenda.next() == min(plain.values(), default=None)
    taken = []
    while (item := agenda.take_due(9)) is not None:
        taken.append(plain.pop(item))
    assert taken == sorted(taken)
    assert plain == {}
