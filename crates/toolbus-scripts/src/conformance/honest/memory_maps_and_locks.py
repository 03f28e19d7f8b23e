import fcntl
import mmap
import os

with open("data", "w+b") as file:
    file.truncate(1 << 20)
    with mmap.mmap(file.fileno(), 0) as view:
        view[100:105] = b"hello"
        print(view.find(b"hello"), len(view))
    file.seek(100)
    print(file.read(5))
    fcntl.flock(file, fcntl.LOCK_EX)
    other = os.open("data", os.O_RDWR)
    try:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("locked")
shared = mmap.mmap(-1, 4096)
reading, writing = os.pipe()
if (child := os.fork()) == 0:
    shared[:3] = b"yes"
    os.write(writing, b"written")
    os._exit(7)
print(os.read(reading, 9), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shared[:3])
print(os.cpu_count() > 0, len(os.sched_getaffinity(0)) > 0, os.getpid() > 0, os.umask(0o22) >= 0)

# prints:
# 100 1048576
# b'hello'
# locked
# b'written' 7 b'yes'
# True True True True
