# Runs pip in a process that can start no other program. pip builds what is not a wheel in programs of
# their own, and does so in spite of `--only-binary :all:` for what a wheel requires by an address
# (`Requires-Dist: x @ https://…`). Where no program starts, no code of a package runs. And whatever pip
# can be talked into writing, it writes to the folder that its target is in, where the kernel has Landlock.

def deny_programs():
    import ctypes
    import os
    import struct

    execve, execveat, architecture = {
        "x86_64": (59, 322, 0xC000003E), "aarch64": (221, 281, 0xC00000B7),
    }[os.uname().machine]
    LOAD, RETURN, EQUAL = 0x20, 0x06, 0x15
    ALLOW, KILL, NOT_PERMITTED = 0x7FFF0000, 0x80000000, 0x50001
    steps = [
        (LOAD, 0, 0, 4), (EQUAL, 1, 0, architecture), (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, 0), (EQUAL, 2, 0, execve), (EQUAL, 1, 0, execveat),
        (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, NOT_PERMITTED),
    ]

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]

    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(len(steps), b"".join(struct.pack("=HBBI", *step) for step in steps))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "the filter of programs was not taken")


def keep_writes_to(folders):
    import ctypes
    import os
    import struct

    CREATE, ADD, RESTRICT, VERSION, PATH_BENEATH = 444, 445, 446, 1, 1
    WRITE_FILE, REFER, TRUNCATE = 1 << 1, 1 << 13, 1 << 14
    REMOVE_AND_MAKE = 0x1FF0  # folders, files, links, sockets, pipes and devices

    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(CREATE, None, 0, VERSION)
    if version < 1:
        return  # no Landlock in this kernel
    writes = WRITE_FILE | REMOVE_AND_MAKE | (version >= 2 and REFER) | (version >= 3 and TRUNCATE)
    ruleset = libc.syscall(CREATE, struct.pack("=Q", writes), 8, 0)
    for folder in folders:
        beneath = os.open(folder, os.O_PATH)
        rule = struct.pack("=Qi", writes, beneath)
        if libc.syscall(ADD, ruleset, PATH_BENEATH, rule, 0):
            raise OSError(ctypes.get_errno(), "a folder to write to was not taken")
        os.close(beneath)
    if libc.syscall(RESTRICT, ruleset, 0):
        raise OSError(ctypes.get_errno(), "the folders to write to were not taken")
    os.close(ruleset)


def places_to_write():
    import os
    import sys
    import tempfile

    target = sys.argv[sys.argv.index("--target") + 1]
    return [os.path.dirname(target), tempfile.gettempdir(), "/dev"]


def run_pip():
    import runpy
    import sys

    # Nothing is imported from the folder that this was started in.
    sys.path[:] = [folder for folder in sys.path if folder]
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


deny_programs()
keep_writes_to(places_to_write())
run_pip()
