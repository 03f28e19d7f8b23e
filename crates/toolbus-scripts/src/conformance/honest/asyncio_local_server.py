import asyncio

async def answer(reader, writer):
    while line := await reader.readline():
        writer.write(line.upper())
        await writer.drain()
    writer.close()

async def ask(words):
    reader, writer = await asyncio.open_unix_connection("server.sock")
    for word in words:
        writer.write(word.encode() + b"\n")
        print((await reader.readline()).decode().strip())
    writer.close()
    await writer.wait_closed()

async def main():
    server = await asyncio.start_unix_server(answer, "server.sock")
    await ask(["one", "two"])
    server.close()

asyncio.run(main())

# prints:
# ONE
# TWO
