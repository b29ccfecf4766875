"""Things to do later."""

from hypothesis import given, settings
from hypothesis import strategies as st

from providers.fakes.agenda import Agenda


@settings(deadline=None)
@given(st.lists(st.integers(0, 20), max_size=30), st.integers(0, 20))
def test_what_is_due_happens_in_order_and_the_rest_waits(times, now):
    agenda, done = Agenda(), []
    for number, at in enumerate(times):
        agenda.at(at, lambda _now, what=(at, number): done.append(what))
    agenda.run(now)
    everything = sorted((at, number) for number, at in enumerate(times))
    assert done == [what for what in everything if what[0] <= now]
    assert agenda.next == next((at for at, _ in everything if at > now), None)


def test_what_is_added_meanwhile_happens_too():
    agenda, done = Agenda(), []
    agenda.at(1.0, lambda now: agenda.at(now, done.append))
    agenda.run(1.0)
    assert done == [1.0]
