# Tells what a script sees of its sandbox, one fact a line.
import glob
import os


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        return type(error).__name__.encode()


def refused(attempt):
    try:
        attempt()
    except OSError:
        return "refused"
    return "allowed"


def connect():
    import socket
    socket.socket(socket.AF_INET, socket.SOCK_STREAM)


def namespace():
    if not hasattr(os, "unshare"):
        return open("/proc/sys/user/max_user_namespaces", "w").close()
    os.unshare(os.CLONE_NEWUSER)


status = dict(line.split(":\t", 1) for line in read("/proc/self/status").decode().splitlines())
routes = read("/proc/net/route").decode().splitlines()[1:]
environments = b"\0".join(read(path) for path in glob.glob("/proc/[0-9]*/environ"))
names = {entry.split(b"=")[0].decode("utf-8", "replace") for entry in environments.split(b"\0")}
known = {"HOME", "LANG", "MALLOC_ARENA_MAX", "OPENBLAS_NUM_THREADS", "PATH", "PWD", "PermissionError",
         "PYTHONDONTWRITEBYTECODE", "TMPDIR", "USER", ""}
print("uid", os.getuid(), os.geteuid(), os.getgid())
print("capabilities", *(int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")))
print("no new privileges", status["NoNewPrivs"])
print("filter", status["Seccomp"])
print("routes", len(routes))
print("processes", *sorted(int(name) for name in os.listdir("/proc") if name.isdigit()))
print("foreign variables", *sorted(names - known))
print("descriptors", *sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1])
print("internet socket", refused(connect))
print("namespace", refused(namespace))
print("root", refused(lambda: os.mkdir("/canary")))
print("usr", refused(lambda: open("/usr/canary", "w")))
print("tracing", refused(lambda: open("/proc/1/mem", "rb+")))
