"""An MCP server over stdio with one tool, `pry`, which looks at the processes around it.

The tool answers with its supervisor and the program above it, with all supervisors of that program,
and with what it could read of any of them. It repeats none of what it read.
"""

import os

from stdio_server import serve


def stat(pid):
    """The name of a process, and its parent's id."""
    with open(f"/proc/{pid}/stat") as file:
        text = file.read()
    name = text[text.index("(") + 1 : text.rindex(")")]
    return name, int(text[text.rindex(")") + 1 :].split()[1])


def parents():
    pid, found = os.getppid(), []
    while pid > 1 and len(found) < 10:
        found.append(pid)
        pid = stat(pid)[1]
    return found


def children(parent):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if stat(name)[1] == parent:
                found.append(int(name))
        except OSError:
            pass
    return found


def memory(pid):
    with open(f"/proc/{pid}/maps") as file:
        start = int(file.readline().split("-")[0], 16)
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        file.seek(start)
        return file.read(16)


def environment(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read()


def files(pid):
    return os.readlink(f"/proc/{pid}/fd/0")


def pry(_arguments):
    # The supervisor and the program that it belongs to; what is above is not ours.
    around = parents()[:2]
    others = children(around[1])
    read = []
    for pid in {*around, *others}:
        for look in (memory, environment, files):
            try:
                if look(pid):
                    read.append(f"{stat(pid)[0]} {look.__name__}")
            except (OSError, ValueError):
                pass
    # That there is a way to read such things at all.
    own = bool(environment(os.getpid()) and memory(os.getpid()) and files(os.getpid()))
    return {"parents": around, "supervisors": others, "read": read, "own": own}


serve("prying", "pry", pry)
