import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.calls.bus import EventBus
from gateway.calls.events import AgentAudioFrame, CallerAudioFrame, CallerSpeech


def event(number: int) -> CallerSpeech:
    return CallerSpeech("call", float(number), started=True)


async def test_every_subscription_gets_every_event_in_order():
    bus = EventBus()
    first, second = bus.subscribe("first", 10), bus.subscribe("second", 10)
    for number in range(5):
        bus.publish(event(number))

    assert [e.at for e in first.take()] == [0, 1, 2, 3, 4]
    assert [e.at for e in second.take()] == [0, 1, 2, 3, 4]


async def test_a_listener_that_waits_is_woken():
    bus = EventBus()
    subscription = bus.subscribe("slow", 10)
    seen = []

    async def listen():
        seen.extend([item.at async for item in subscription])

    async with asyncio.TaskGroup() as group:
        group.create_task(listen())
        for number in range(3):
            bus.publish(event(number))
            await asyncio.sleep(0)
        subscription.close()

    assert seen == [0, 1, 2]


async def test_a_full_queue_loses_the_new_events_of_that_listener_only_and_counts_them():
    lost = []
    bus = EventBus(on_drop=lost.append)
    slow, quick = bus.subscribe("slow", 2), bus.subscribe("quick", 100)
    for number in range(5):
        bus.publish(event(number))

    assert [e.at for e in slow.take()] == [0, 1]
    assert slow.dropped == 3
    assert len(quick) == 5
    assert quick.dropped == 0
    assert lost == ["slow"] * 3


async def test_lost_events_are_counted_for_each_call():
    bus = EventBus()
    slow = bus.subscribe("slow", 1)
    for call_id in ("a", "a", "b", "a"):
        bus.publish(CallerSpeech(call_id, 0.0, started=True))

    assert (slow.dropped, slow.forget_dropped("a"), slow.forget_dropped("b")) == (3, 2, 1)
    assert slow.forget_dropped("a") == 0


async def test_calls_without_number_that_lose_events_do_not_fill_the_memory():
    slow = EventBus().subscribe("slow", 0)
    for number in range(20_000):
        slow.offer(CallerSpeech(f"c-{number}", 0.0, started=True))

    assert slow.dropped == 20_000
    assert sum(slow.forget_dropped(f"c-{number}") for number in range(20_000)) == 10_000


async def test_a_listener_may_ask_for_audio_later_and_no_longer():
    bus = EventBus()
    subscription = bus.subscribe("recorder", 10)
    bus.publish(AgentAudioFrame("call", 0.0, b"a"))
    bus.want_audio(subscription, wanted=True)
    bus.publish(AgentAudioFrame("call", 1.0, b"a"))
    bus.want_audio(subscription, wanted=False)
    bus.publish(AgentAudioFrame("call", 2.0, b"a"))

    assert [e.at for e in subscription.take()] == [1.0]
    assert not bus.wants_audio


async def test_what_is_queued_can_be_read_after_closing_and_then_it_ends():
    bus = EventBus()
    with bus.subscribe("listener", 10) as subscription:
        bus.publish(event(1))
    bus.publish(event(2))

    assert [e.at async for e in subscription] == [1]
    assert subscription.dropped == 0


async def test_a_closed_subscription_leaves_the_bus():
    bus = EventBus()
    subscription = bus.subscribe("listener", 1)
    subscription.close()
    subscription.close()
    for number in range(3):
        bus.publish(event(number))

    assert len(subscription) == 0
    assert subscription.dropped == 0


async def test_publishing_during_a_batch_wakes_the_listener_again():
    bus = EventBus()
    subscription = bus.subscribe("listener", 10)
    seen = []
    bus.publish(event(0))
    async with asyncio.timeout(5):
        async for item in subscription:
            seen.append(item.at)
            if item.at < 3:
                bus.publish(event(int(item.at) + 1))
            else:
                subscription.close()

    assert seen == [0, 1, 2, 3]


async def test_audio_goes_only_to_those_who_want_it():
    bus = EventBus()
    plain = bus.subscribe("plain", 10)
    assert not bus.wants_audio
    recorder = bus.subscribe("recorder", 10, audio=True)
    assert bus.wants_audio
    bus.publish(CallerAudioFrame("call", 0.0, b"a"))
    bus.publish(AgentAudioFrame("call", 0.0, b"b"))
    bus.publish(event(1))

    assert [type(e) for e in plain.take()] == [CallerSpeech]
    assert [type(e) for e in recorder.take()] == [CallerAudioFrame, AgentAudioFrame, CallerSpeech]
    recorder.close()
    assert not bus.wants_audio


async def test_audio_cannot_fill_the_room_reserved_for_other_events():
    bus = EventBus()
    recorder = bus.subscribe("recorder", 4, audio=True, reserve=2)
    for _ in range(10):
        bus.publish(CallerAudioFrame("call", 0.0, b"a"))
    for number in range(3):
        bus.publish(event(number))

    assert [type(e) for e in recorder.take()] == [CallerAudioFrame] * 2 + [CallerSpeech] * 2
    assert recorder.dropped == 8 + 1


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 5), st.lists(st.sampled_from(["publish", "take"]), max_size=60))
def test_nothing_is_lost_uncounted_and_the_queue_is_bounded(size, steps):
    bus = EventBus()
    subscription = bus.subscribe("listener", size)
    published = taken = 0
    for step in steps:
        if step == "publish":
            bus.publish(event(published))
            published += 1
        else:
            taken += len(subscription.take())
        assert len(subscription) <= size

    assert taken + len(subscription) + subscription.dropped == published
