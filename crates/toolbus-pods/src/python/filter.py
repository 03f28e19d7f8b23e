# The system calls that nobody in the pod gets, as a filter of the kernel. The same calls as the local
# sandbox refuses; names, with their numbers on x86_64 and on aarch64 (None where there is no such).

def deny_calls(network):
    import ctypes
    import os
    import struct

    # They fail as if this kernel did not have them, and programs fall back.
    absent = {
        "clone3": (435, 435), "memfd_create": (319, 279), "memfd_secret": (447, 447),
        "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
        # What all pods of a node share.
        "io_setup": (206, 0), "inotify_init1": (294, 26), "inotify_init": (253, None),
    }
    refused = {
        # Namespaces, mounts, the system itself.
        "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
        "pivot_root": (155, 41), "chroot": (161, 51), "move_mount": (429, 429), "open_tree": (428, 428),
        "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
        "mount_setattr": (442, 442), "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142),
        "sethostname": (170, 161), "setdomainname": (171, 162), "settimeofday": (164, 170),
        "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
        "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443), "syslog": (103, 116),
        "vhangup": (153, 58), "init_module": (175, 105), "finit_module": (313, 273),
        "delete_module": (176, 106), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
        # Other processes.
        "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
        "process_madvise": (440, 440), "pidfd_getfd": (438, 438), "kcmp": (312, 272),
        "move_pages": (279, 239), "migrate_pages": (256, 238),
        # Signals whose sender can be made up.
        "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
        # Memory that a pipe holds, and no process shows.
        "vmsplice": (278, 75),
        # Parts of the kernel that scripts have no business with.
        "bpf": (321, 280), "perf_event_open": (298, 241), "io_uring_setup": (425, 425),
        "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "userfaultfd": (323, 282),
        "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
        "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "fanotify_init": (300, 262),
        "lookup_dcookie": (212, 18), "nfsservctl": (180, 42), "personality": (135, 92),
        "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None), "uselib": (134, None),
        "ustat": (136, None), "sysfs": (139, None),
    }
    prlimit, pidfd_send_signal = (302, 261), (424, 424)
    clone, ioctl, sockets = (56, 220), (16, 29), [(41, 198), (53, 199)]
    namespaces = 0x7E020080  # every flag of clone that makes a namespace
    terminal_injection = [0x5412, 0x541C]
    fcntl, unowned_locks = (72, 25), [37, 38]  # F_OFD_SETLK, which nobody can count, and F_OFD_SETLKW
    architectures = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
    column, architecture = architectures[os.uname().machine]

    LOAD, RETURN, EQUAL, AT_LEAST, ANY_BIT = 0x20, 0x06, 0x15, 0x35, 0x45
    ALLOW, KILL, NOT_PERMITTED, NO_SUCH_CALL = 0x7FFF0000, 0x80000000, 0x50001, 0x50026
    NUMBER, ARCHITECTURE, FIRST_ARGUMENT, SECOND_ARGUMENT, THIRD_ARGUMENT = 0, 4, 16, 24, 32
    program = []

    def step(code, value, when=0, otherwise=0):
        program.append(struct.pack("=HBBI", code, when, otherwise, value))

    step(LOAD, ARCHITECTURE)
    step(EQUAL, architecture, 1)
    step(RETURN, KILL)
    step(LOAD, NUMBER)
    if architecture == 0xC000003E:
        # The x32 interface reaches the same calls under other numbers, with a bit of its own and,
        # before Linux 5.4, without.
        step(AT_LEAST, 0x40000000, 2)
        step(AT_LEAST, 512, 0, 2)
        step(AT_LEAST, 548, 1)
        step(RETURN, NOT_PERMITTED)
    for calls, answer in (absent, NO_SUCH_CALL), (refused, NOT_PERMITTED):
        for numbers in calls.values():
            if numbers[column] is not None:
                step(EQUAL, numbers[column], 0, 1)
                step(RETURN, answer)
    step(EQUAL, clone[column], 0, 4)
    step(LOAD, FIRST_ARGUMENT)
    step(ANY_BIT, namespaces, 0, 1)
    step(RETURN, NOT_PERMITTED)
    step(RETURN, ALLOW)
    # Limits of another process, the first among them.
    step(EQUAL, prlimit[column], 0, 4)
    step(LOAD, FIRST_ARGUMENT)
    step(EQUAL, 0, 1)
    step(RETURN, NOT_PERMITTED)
    step(RETURN, ALLOW)
    # Information about the sender that is made up: a pointer, of which either half counts.
    step(EQUAL, pidfd_send_signal[column], 0, 6)
    step(LOAD, THIRD_ARGUMENT)
    step(EQUAL, 0, 0, 2)
    step(LOAD, THIRD_ARGUMENT + 4)
    step(EQUAL, 0, 1)
    step(RETURN, NOT_PERMITTED)
    step(RETURN, ALLOW)
    for numbers, one, other in (ioctl, *terminal_injection), (fcntl, *unowned_locks):
        step(EQUAL, numbers[column], 0, 5)
        step(LOAD, SECOND_ARGUMENT)
        step(EQUAL, one, 1)
        step(EQUAL, other, 0, 1)
        step(RETURN, NOT_PERMITTED)
        step(RETURN, ALLOW)
    # Local ones (AF_UNIX); where there is a network those of the internet, too, and AF_NETLINK, which
    # resolvers ask for the machine's addresses.
    families = (1, 2, 10, 16) if network else (1,)
    for numbers in sockets:
        step(EQUAL, numbers[column], 0, len(families) + 3)
        step(LOAD, FIRST_ARGUMENT)
        for left in range(len(families), 0, -1):
            step(EQUAL, families[-left], left)
        step(RETURN, NOT_PERMITTED)
        step(RETURN, ALLOW)
    step(RETURN, ALLOW)

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]

    libc = ctypes.CDLL(None, use_errno=True)
    filter = Program(len(program), b"".join(program))
    NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
    if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(SECCOMP, FILTER, ctypes.byref(filter), 0, 0):
        raise OSError(ctypes.get_errno(), "the filter of system calls was not taken")
