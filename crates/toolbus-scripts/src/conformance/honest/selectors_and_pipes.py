import os
import selectors
import socket
import threading

selector = selectors.DefaultSelector()
pairs = [socket.socketpair() for _ in range(5)]
for number, (near, _) in enumerate(pairs):
    near.setblocking(False)
    selector.register(near, selectors.EVENT_READ, number)

def write():
    for number, (_, far) in enumerate(pairs):
        far.sendall(b"x" * (number + 1))
        far.close()

threading.Thread(target=write).start()
heard = {}
while len(heard) < 5:
    for key, _ in selector.select(timeout=20):
        if data := key.fileobj.recv(100):
            heard[key.data] = heard.get(key.data, 0) + len(data)
        else:
            selector.unregister(key.fileobj)
print(sorted(heard.items()))
reading, writing = os.pipe2(os.O_NONBLOCK)
try:
    os.read(reading, 1)
except BlockingIOError:
    print("nothing yet")
os.set_blocking(reading, True)
os.write(writing, b"now")
print(os.read(reading, 3))

# prints:
# [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
# nothing yet
# b'now'
