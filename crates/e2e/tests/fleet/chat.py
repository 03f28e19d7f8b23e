"""Talks with the agent at a terminal: chat.py COMMAND...

Each line is typed once what comes before it has been shown. It prints all that the terminal showed.
"""

import os
import pty
import select
import sys
import time

STEPS = [
    (b"> ", b"run something\r"),
    (b"execute_python_script {", b"\x03"),
    (b"cancelled", b"hello\r"),
    (b"Hello!", b"/cost\r"),
    (b"tokens read", b"/nothing\r"),
    (b"there is no /nothing", b"\x04"),
]

pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])

shown, at, steps = b"", 0, list(STEPS)
end = time.monotonic() + 50
while time.monotonic() < end:
    if steps and (found := shown.find(steps[0][0], at)) >= 0:
        at = found + len(steps[0][0])
        # The line is read when the prompt is there again.
        time.sleep(0.5)
        os.write(terminal, steps.pop(0)[1])
    if not select.select([terminal], [], [], 0.1)[0]:
        continue
    try:
        part = os.read(terminal, 4096)
    except OSError:
        break
    if not part:
        break
    shown += part

print(shown.decode(errors="replace").replace("\r\n", "\n"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
