import select
import signal
import socket

signal.signal(signal.SIGALRM, lambda *_: print("alarm"))
signal.setitimer(signal.ITIMER_REAL, 0.05)
signal.pause()
one, other = socket.socketpair()
one.sendall(b"hello")
print(select.select([other], [], [], 5)[0] == [other], other.recv(9))
server = socket.socket(socket.AF_UNIX)
server.bind("socket")
server.listen()
client = socket.socket(socket.AF_UNIX)
client.connect("socket")
client.send(b"x")
print(server.accept()[0].recv(1))

# prints:
# alarm
# True b'hello'
# b'x'
