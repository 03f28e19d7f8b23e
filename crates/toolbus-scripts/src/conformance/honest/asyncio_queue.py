import asyncio

async def worker(queue, done, limit):
    while True:
        number = await queue.get()
        async with limit:
            await asyncio.sleep(0.001)
            done.append(number * 2)
        queue.task_done()

async def main():
    queue, done, limit = asyncio.Queue(maxsize=5), [], asyncio.Semaphore(2)
    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(worker(queue, done, limit)) for _ in range(4)]
        for number in range(50):
            await queue.put(number)
        await queue.join()
        for task in workers:
            task.cancel()
    print(len(done), sum(done))
    try:
        async with asyncio.timeout(0.05):
            await asyncio.sleep(30)
    except TimeoutError:
        print("too slow")

asyncio.run(main())

# prints:
# 50 2450
# too slow
