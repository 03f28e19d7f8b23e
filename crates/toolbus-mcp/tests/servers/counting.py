"""A server that knows how often it was called: python3 counting.py

Its one tool `count` tells the session, which is the process, the number of the call in it, who has
called in it (the argument `who` of every call), and when the call was made by the server's clock,
in nanoseconds. With `until`, the call lasts until there is a file of that name. With `begun`, it
makes a file of that name at its beginning.
"""

import os
import time

from stdio_server import serve

SESSION = f"{os.getpid()}-{time.time_ns()}"
calls = []


def count(arguments):
    if "begun" in arguments:
        open(arguments["begun"], "w").close()
    while not os.path.exists(arguments.get("until", "/")):
        time.sleep(0.01)
    calls.append(arguments.get("who", ""))
    told = {"session": SESSION, "n": len(calls), "callers": sorted(set(calls))}
    return {**told, "at": time.time_ns()}


serve("counting", "count", count)
