import asyncio

from gateway.legs.feed import Feed


async def test_items_come_out_in_order_and_end_after_close():
    feed = Feed(8)
    feed.put(1)
    feed.put(2)
    feed.close()
    feed.put(3)

    assert [item async for item in feed] == [1, 2]


async def test_the_oldest_item_is_dropped_and_counted_when_nobody_takes_it():
    feed = Feed(2)
    for item in range(5):
        feed.put(item)
    feed.close()

    assert [item async for item in feed] == [3, 4]
    assert feed.dropped == 3


async def test_a_waiting_reader_is_woken():
    feed = Feed(2)
    taken = []

    async def read():
        async for item in feed:
            taken.append(item)
            if len(taken) == 2:
                feed.close()

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(read())
        await asyncio.sleep(0)
        feed.put("a")
        await asyncio.sleep(0)
        feed.put("b")

    assert taken == ["a", "b"]


async def test_a_reader_that_was_cancelled_leaves_the_feed_usable():
    feed = Feed(2)

    async def read():
        return [item async for item in feed]

    async with asyncio.TaskGroup() as group:
        task = group.create_task(read())
        await asyncio.sleep(0)
        task.cancel()
    feed.put(1)
    feed.close()

    assert [item async for item in feed] == [1]
