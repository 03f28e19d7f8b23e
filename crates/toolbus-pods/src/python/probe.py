# Runs in a pod that network policy is to hold and no filter of system calls: tries to reach the API
# server, which every container is told the address of, and says on one line what came of it.
#
# A policy may take hold a moment after its pod is there, or hold it from the start and let go of it
# when it turns out that none selects it. So the first seconds count for nothing.

import os
import socket
import time

SETTLED = 5.0   # seconds
TRIES = 3
EACH = 1.0      # seconds for one
PAUSE = 0.2     # seconds between two

host, port = os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"])
family = socket.AF_INET6 if ":" in host else socket.AF_INET
said = ""
time.sleep(SETTLED)
for _ in range(TRIES):
    # That there are no sockets at all is no policy's doing: it ends this with an error.
    with socket.socket(family, socket.SOCK_STREAM) as stream:
        stream.settimeout(EACH)
        try:
            stream.connect((host, port))
            said = "reached"
            break
        except OSError as error:
            said = "in vain: %s" % error
    time.sleep(PAUSE)
print(said)
