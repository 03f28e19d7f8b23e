# Makes an interpreter what `python -c` has, takes a script, and runs it.
#
# Started by the first process of a sandbox with descriptor 3 open: a socket that delivers frames
# (four bytes of length, most significant first, then that many bytes): the interpreter's prefixes
# and module path, the script, the input, folders to make, and files to write, path and content in
# turn until a path is empty. `run_script` stands before this. Only built-in modules are imported
# here: `site` and `os` would cost more than all the rest together, and most of it again in every run.

def bootstrap():
    import builtins
    import posix
    import sys

    def take(count):
        parts = []
        while count:
            part = posix.read(3, min(count, 1 << 20))
            if not part:
                posix._exit(125)
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def frame():
        return take(int.from_bytes(take(4), "big"))

    # What `site` would have set, as it was when the interpreter was looked at.
    names = ("prefix", "exec_prefix", "base_prefix", "base_exec_prefix")
    places = frame().decode("utf-8", "surrogateescape").split("\0")
    for name, place in zip(names, places):
        setattr(sys, name, place)
    sys.path[:] = [""] + places[len(names):]

    source = frame().decode("utf-8")
    data = frame()
    for folder in filter(None, frame().split(b"\0")):
        posix.mkdir(folder, 0o700)
    while path := frame():
        file = posix.open(path, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL, 0o600)
        content = memoryview(frame())
        while content:
            content = content[posix.write(file, content):]
        posix.close(file)
    # `os.environ` is made of this when `os` is first imported.
    posix.environ[b"ROCKBOT_INPUT"] = data
    if len(data) < 96 << 10:
        # Children get it too, unless it is near the kernel's limit for one string: then starting
        # any program would fail.
        posix.putenv(b"ROCKBOT_INPUT", data)

    import _sitebuiltins
    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
    builtins.help = _sitebuiltins._Helper()

    def started():
        # From here on nothing can be told to the outside in the script's stead.
        posix.write(3, b"S")
        posix.close(3)

    run_script(source, started)

bootstrap()
