"""Runs a command at a terminal and types a line once it is asked for one: at_terminal.py LINE COMMAND...

It prints all that the terminal showed, and ends as the command did.
"""

import os
import pty
import sys
import termios

pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])

shown, typed = b"", False
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        break
    if not part:
        break
    shown += part
    if not typed and shown.endswith(b": "):
        typed = True
        os.write(terminal, sys.argv[1].encode() + b"\n")

# What a person types next is shown again.
echoes = termios.tcgetattr(terminal)[3] & termios.ECHO
print(shown.decode().replace("\r\n", "\n"), end="")
print("echo is", "on" if echoes else "off")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
