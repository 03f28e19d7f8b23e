import asyncio

async def work(n):
    await asyncio.sleep(0.01)
    return n * n

async def main():
    process = await asyncio.create_subprocess_exec("echo", "child", stdout=-1)
    said, _ = await process.communicate()
    squares = await asyncio.gather(*map(work, range(10)))
    print(said.decode().strip(), sum(squares), await asyncio.to_thread(len, "abc"))

asyncio.run(main())

# prints:
# child 285 3
