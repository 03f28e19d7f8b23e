# The child that is made while nothing has been read yet: waits for its script, takes its limits, waits
# for the word, and becomes the script.

# Descriptors that are open in it beside the standard ones: the first until the script begins, the other
# only in a script that has a channel to its caller.
ORDERS, CHANNEL = 3, 4


def numbers(lines):
    return {name: int(number) for name, number in (line.split() for line in lines.decode().splitlines())}


def await_script(orders, out, err, channel, path):
    import _signal as signal
    import os
    import resource
    import select
    import sys

    def frame():
        return take(int.from_bytes(take(4), "big"))

    def take(count):
        parts = []
        while count:
            part = os.read(orders, min(count, 1 << 20))
            if not part:
                os._exit(125)
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for file, number in (null, 0), (out, 1), (err, 2):
        os.dup2(file, number)
    # Nothing else of the first process stays open here.
    kept = os.dup(orders), os.dup(channel)
    orders, channel = os.dup2(kept[0], ORDERS), os.dup2(kept[1], CHANNEL)
    os.closerange(CHANNEL + 1, 1 << 20)
    os.umask(0o022)
    os.chdir(WORK)
    os.environ.update(
        PATH=path, HOME=WORK, TMPDIR=TEMPORARY, LANG="C.UTF-8", USER="sandbox",
        PYTHONDONTWRITEBYTECODE="1", MALLOC_ARENA_MAX="1", OPENBLAS_NUM_THREADS="1",
    )
    # A pod that waits has the time for this; in one that was made for a script, that comes first.
    if not select.select([orders], [], [], 0.1)[0]:
        own_memory()
    settings = numbers(frame())
    if settings["packages"]:
        # For children; the folder that a script starts in still comes first.
        os.environ["PYTHONPATH"] = "/packages"
        sys.path.insert(0, "/packages")
    source, data, prelude = frame().decode(), frame(), frame().decode()
    if not settings.get("channel"):
        prelude = None
        os.close(channel)
    files = []
    while name := frame():
        files.append((name, frame()))
    write_files(files)
    del files
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The kernel takes the script before the first process when memory runs out, and gives the first
    # process its turn when the script wants all of the processor.
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    os.nice(10)
    # Beyond what the wall clock allows, on every processor: it never decides in the clock's place, but
    # ends the script when this one's parent cannot.
    seconds = settings["timeout_ms"] // 1000 + 1
    for what, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, settings["processes"]),
        (resource.RLIMIT_NOFILE, settings["open_files"]),
        (resource.RLIMIT_FSIZE, settings["file_bytes"]),
        (resource.RLIMIT_AS, settings["address_space_bytes"]),
        # What main threads get everywhere else; Python relies on it for deep recursion.
        (resource.RLIMIT_STACK, 8 << 20),
        (resource.RLIMIT_CPU, seconds * (os.cpu_count() or 1) + 10),
    ):
        resource.setrlimit(what, (limit, limit))

    def begin():
        take(1)
        os.close(orders)

    return source, data, prelude, begin


def own_memory():
    """Makes a copy of its own of every page that it shares with the first process, at once: else it
    would do so one by one, while the script is begun and ended."""
    import ctypes

    POPULATE_WRITE = 23  # since Linux 5.14; before, this fails and changes nothing
    libc = ctypes.CDLL(None)
    with open("/proc/self/maps") as file:
        for line in file:
            addresses, access = line.split(None, 2)[:2]
            if access == "rw-p":
                start, end = (int(address, 16) for address in addresses.split("-"))
                libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), POPULATE_WRITE)


become_script(*await_script(*supervise()))
