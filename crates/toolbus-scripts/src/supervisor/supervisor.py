# The first process of a sandbox or of a pod: takes one script from its standard input, runs it as a
# child, and tells what came of it on its standard output.
#
# What it takes are messages: a letter, four bytes of length (most significant first), and that much.
#
#   H nonce     is answered with `ready`. Repeated until it is: what is attached to a container may
#               deliver in one direction before the other. What came before it and is not whole is
#               forgotten: whoever sent that was cut off, and this one begins anew.
#   L settings  limits and times, a line with name and number for each
#   S source, I input, P prelude, F file (name, zero byte, content), G (go)
#   C           is answered with `taken` when a script is here and has not started; the child has all of
#               it then, and waits for the word
#   K           kills the script
#   R response  to a request of the script: its number, in four bytes, and the body
#   M mark      is told at once: what was told before is no answer to anything that came after
#   A           the end has been heard: there is nothing left to do
#
# What it tells are lines: the nonce, a number that counts up, a word, and a text. The script has
# pipes of its own and no way to this process's descriptors: not by inheritance, and not by /proc,
# since this process is not dumpable. The nonce is not in its memory either: the child that becomes
# the script is made before anything is read.
#
# It must never block: a reader that stalls must not keep the clock from ending the script. It must not
# end before the end has been heard, because what is written last is lost to those attached when a
# container ends; the container's log has it all the same.
#
# Whoever waits for a script waits for this to start, so it imports little: `json`, `ctypes` and
# `signal` bring what takes longer to load than all the rest, three times as long where the image has
# no compiled modules, as official ones have not.

def supervise():
    import _signal as signal  # without the enumerations around it
    import _ctypes  # without the types around it
    import binascii
    import gc
    import os
    import resource
    import select
    import sys
    import time

    INPUT, OUTPUT = 0, 1
    PIECE = 32 << 10        # most bytes of output in one line
    LINGER = 15.0           # seconds to wait for the end to be heard
    LULL = 0.015            # seconds between that and this process's end, which is work for a node
    DRAIN = 0.2             # seconds in which output may come after the script's end
    HOLD = 0.005            # seconds that output waits for more of it, or for the end
    BEHIND = 256 << 10      # bytes that are not written yet, while no more requests are taken
    LOOK = 0.05             # seconds between two looks at what the script holds
    DUMPABLE = 4            # whether other processes of the user may look into one

    # The functions of the C library, with the few types that their arguments have here.
    class Integer(_ctypes._SimpleCData):
        _type_ = "i"

    class Pointer(_ctypes._SimpleCData):
        _type_ = "P"

    class Bytes(_ctypes._SimpleCData):
        _type_ = "z"

    class Function(_ctypes.CFuncPtr):
        _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
        _restype_ = Integer

    libc = _ctypes.dlopen(None, 0)

    def call(name, *arguments):
        answer = Function(_ctypes.dlsym(libc, name))(*arguments)
        if answer < 0:
            raise OSError(_ctypes.get_errno(), name)
        return answer

    # By hand: the module of sockets takes longer to load than all that it would do.
    def socket_pair():
        class Pair(_ctypes._SimpleCData):
            _type_ = "q"

        LOCAL, STREAM, CLOSE_ON_EXEC = 1, 1, 0o2000000
        pair = Pair()
        call("socketpair", LOCAL, STREAM | CLOSE_ON_EXEC, 0, _ctypes.byref(pair))
        both = pair.value.to_bytes(8, sys.byteorder)
        return (int.from_bytes(half, sys.byteorder) for half in (both[:4], both[4:]))

    # The system calls that nobody in here gets: a filter of the kernel, made outside.
    def deny_calls(program):
        steps = Bytes(program)
        filter = (len(program) // 8).to_bytes(8, sys.byteorder) + bytes(steps)
        NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
        call("prctl", NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        call("prctl", SECCOMP, FILTER, filter, 0, 0)

    def signal_file(signals):
        mask = sum(1 << (number - 1) for number in signals)
        return call("signalfd", -1, mask.to_bytes(128, sys.byteorder), 0o2000000 | 0o4000)

    def forget_environment():
        # The block that the kernel shows as /proc/PID/environ; children would show it, too.
        os.environ.clear()
        with open("/proc/self/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        start, end = int(fields[47]), int(fields[48])
        Function(_ctypes.dlsym(libc, "memset"))(Pointer(start), 0, Pointer(end - start))

    # Until nothing is left: what was just forked may have been missed.
    def kill_everything():
        end = time.monotonic() + 2
        while time.monotonic() < end:
            try:
                os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                pass
            try:
                while reap():
                    pass
            except ChildProcessError:
                return
            time.sleep(0.001)

    def reap():
        number, status, used = os.wait4(-1, os.WNOHANG)
        if number and number == state.child:
            state.status = status
        return number

    class State:
        nonce = None            # what the lines begin with
        count = 0
        pending = bytearray()   # what has not been written yet
        arrived = bytearray()   # what is not a whole message yet
        searched = 0            # how much of that is no greeting
        limits = b""
        settings = {}
        source = data = prelude = None
        files = []
        child = None            # process number
        handed_over = False     # the child has the script
        status = None           # wait status
        cause = None            # why it was killed, if it was
        started = ended = None
        look = None             # when it is looked next at what the script holds
        hold = 0.0              # until when what is pending waits for more
        leave = None            # when this process ends

    state = State()

    def tell(word, text=b""):
        line = b"%s %d %s %s\n" % (bytes(state.nonce), state.count, word, text)
        state.count += 1
        state.pending += line
        # Less than that goes out in one piece with what else is told in the same round: every piece
        # is carried by four processes.
        if len(state.pending) > 65536:
            flush()

    def tell_at_once(word, text=b""):
        state.hold = 0.0
        tell(word, text)

    # It goes out with what comes next, or soon.
    def tell_soon(word, text=b""):
        if not state.pending:
            state.hold = time.monotonic() + HOLD
        tell(word, text)

    def flush():
        while state.pending:
            try:
                written = os.write(OUTPUT, memoryview(state.pending)[:65536])
            except BlockingIOError:
                return
            del state.pending[:written]

    def stop(cause):
        if state.started is not None and state.status is None:
            state.cause = cause
            kill_everything()

    def take_messages():
        while len(state.arrived) >= 5:
            length = int.from_bytes(state.arrived[1:5], "big")
            if len(state.arrived) < 5 + length:
                if not forget_half():
                    return
                continue
            kind = state.arrived[:1]
            body = state.arrived[5:5 + length]
            del state.arrived[:5 + length]
            take(bytes(kind), body)

    # Drops half a message that another begins behind: nobody else knows the nonce.
    def forget_half():
        if state.nonce is None:
            return False
        hello = b"H" + len(state.nonce).to_bytes(4, "big") + bytes(state.nonce)
        # What was looked through before is not looked through again.
        at = state.arrived.find(hello, max(1, state.searched - len(hello)))
        state.searched = len(state.arrived)
        if at < 0:
            return False
        del state.arrived[:at]
        return True

    def take(kind, body):
        state.searched = 0
        if kind == b"H":
            if state.nonce is None:
                state.nonce = body
            if state.started is None:
                tell(b"ready")
        elif kind == b"L":
            state.limits = bytes(body)
            state.settings = numbers(state.limits)
            state.prelude = b""
            state.files.clear()
        elif kind == b"S":
            state.source = bytes(body)
        elif kind == b"I":
            state.data = bytes(body)
        elif kind == b"P":
            state.prelude = bytes(body)
        elif kind == b"F":
            name, _, content = body.partition(b"\0")
            state.files += [name, content]
        elif kind == b"C":
            if state.started is None and (state.handed_over or state.source is not None):
                hand_over()
                tell(b"taken")
        elif kind == b"G":
            if state.started is None:
                start()
        elif kind == b"K":
            stop("cancelled")
        elif kind == b"R":
            channel.answer(int.from_bytes(body[:4], "big"), body[4:])
        elif kind == b"M":
            tell_at_once(b"mark", bytes(body))
        elif kind == b"A":
            state.leave = time.monotonic() + (LULL if state.ended is not None else 0)

    def hand_over():
        if state.handed_over:
            return
        state.handed_over = True
        watch.begin(state.settings)
        # Until one is empty, as no name is.
        for frame in (state.limits, state.source, state.data, state.prelude, *state.files, b""):
            order(len(frame).to_bytes(4, "big"))
            order(frame)
        state.source = state.data = state.prelude = None
        state.files.clear()

    def order(part):
        # The child reads all of it before it does anything else, so this does not wait for long.
        part = memoryview(part)
        try:
            while part:
                part = part[os.write(orders, part):]
        except BrokenPipeError:
            pass  # it is gone, and that is noticed by its end

    def start():
        hand_over()
        # Nothing begins before this is written, so a log without it is proof. Nothing runs yet that
        # waiting could keep from its end.
        tell(b"started")
        flush()
        while state.pending:
            select.select([], [OUTPUT], [])
            flush()
        state.started = time.monotonic()
        state.look = state.started + LOOK
        order(b"G")
        os.close(orders)
        if not state.settings.get("channel"):
            channel.discard()
        for file in streams:
            streams[file][1] = state.settings["output_bytes"] + 4
            poll.register(file, select.POLLIN)

    def read_output(file):
        try:
            piece = os.read(file, PIECE)
        except BlockingIOError:
            return False
        if not piece:
            poll.unregister(file)
            os.close(file)
            del streams[file]
            return False
        stream = streams[file]
        # More than is kept is read, and goes nowhere.
        kept = piece[:stream[1]]
        if kept:
            stream[1] -= len(kept)
            # What could not be written before goes first, and waits for the reader alone.
            tell_soon(stream[0], binascii.b2a_base64(kept, newline=False))
        return True

    def read_input():
        try:
            piece = os.read(INPUT, 1 << 20)
        except BlockingIOError:
            return
        if piece:
            state.arrived += piece
            take_messages()
        elif OUTLIVES_INPUT:
            poll.unregister(INPUT)
        else:
            os._exit(0)

    def read_signals():
        while True:
            try:
                information = os.read(signals, 128)
            except BlockingIOError:
                break
            number, _, code, sender = (int.from_bytes(information[at:at + 4], sys.byteorder)
                                       for at in (0, 4, 8, 12))
            # From inside the pod it is the script's; from outside, where the sender has no number
            # here, the pod is to end. With this process, all others do. Only `kill` (SI_USER) says
            # who the sender is: signals of files (F_SETSIG) have no number there either, and those
            # that are queued have what the script writes.
            if number == signal.SIGTERM and code == 0 and sender == 0:
                flush()
                os._exit(143)
        try:
            while reap():
                pass
        except ChildProcessError:
            pass

    def finish():
        ended = time.monotonic()
        kill_everything()
        for file in list(streams):
            while file in streams and read_output(file):
                pass
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        end = {
            "elapsed_ms": int((ended - state.started) * 1000),
            "cpu_ms": int((used.ru_utime + used.ru_stime) * 1000),
            "memory_peak": watch.memory_peak(used.ru_maxrss << 10),
        }
        channel.close()
        cause = state.cause
        if cause is None and watch.is_out_of_memory():
            cause = "out_of_memory"
        tell(b"over")
        if cause is None:
            tell_files(tell, work, state.settings)
        if cause is not None:
            end["cause"] = cause
        elif os.WIFSIGNALED(state.status):
            end["signal"] = os.WTERMSIG(state.status)
        else:
            end["code"] = os.WEXITSTATUS(state.status)
        # Numbers, and words of ours: nothing that JSON would have to escape.
        members = ", ".join('"%s": %s' % (name, value if isinstance(value, int) else '"%s"' % value)
                            for name, value in end.items())
        tell(b"end", b"{%s}" % members.encode())
        state.ended = time.monotonic()
        state.leave = state.ended + LINGER

    def find_exceeded():
        now = time.monotonic()
        if now < state.look:
            return None
        state.look = now + LOOK
        return watch.find_exceeded()

    def next_deadline():
        if state.leave is not None:
            return state.leave
        if state.started is None:
            return None
        if state.status is not None:
            return drained
        return state.started + state.settings["timeout_ms"] / 1000

    if os.getpid() != 1:
        raise RuntimeError("this kills every process that it sees, so it must be the first one")
    path = os.environ.get("PATH", os.defpath)
    forget_environment()
    deny_calls(bytes.fromhex(FILTERS[os.uname().machine]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whoever started this may be deaf to them, and has left that to the script.
    for number in signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD:
        signal.signal(number, signal.SIG_DFL)
    handled = {signal.SIGTERM, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, handled)
    for folder in WORK, WORK + "/output", TEMPORARY:
        if not os.path.isdir(folder):
            os.mkdir(folder, 0o700)
    # Held open from before there is a script, which could put others under these names.
    work, *places = (os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                     for folder in (WORK, *WRITABLE))
    watch = watch_limits(places)
    orders_read, orders = os.pipe()
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    channel_here, channel_there = socket_pair()
    # What is there by now is no garbage. Looking at it would make the child copy every page of it.
    gc.freeze()
    # The child has to be, from its first moment on: what it holds is looked at before it does anything.
    # It would not be where the interpreter may be run and not read.
    call("prctl", DUMPABLE, 1, 0, 0, 0)
    state.child = os.fork()
    if state.child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, handled)
        return orders_read, out_write, err_write, channel_there, path
    # Nothing was read before this.
    call("prctl", DUMPABLE, 0, 0, 0, 0)
    for file in orders_read, out_write, err_write, channel_there:
        os.close(file)
    for file in INPUT, OUTPUT, out_read, err_read, channel_here:
        os.set_blocking(file, False)
    signals = signal_file(handled)
    streams = {out_read: [b"out", 0], err_read: [b"err", 0]}
    poll = select.poll()
    poll.register(INPUT, select.POLLIN)
    poll.register(signals, select.POLLIN)
    channel = serve_channel(channel_here, poll, tell_soon, tell_at_once,
                            lambda: len(state.pending) > BEHIND)
    writing = False
    drained = None
    while True:
        if state.status is not None and not state.handed_over:
            raise RuntimeError("the child ended before it was a script")
        if state.status is not None and state.started is not None and state.ended is None:
            if drained is None:
                drained = time.monotonic() + DRAIN
            # What it left behind may still be writing.
            if not streams or state.cause or time.monotonic() >= drained:
                finish()
        runs = state.started is not None and state.status is None
        exceeded = find_exceeded() if runs else None
        if exceeded:
            stop(exceeded)
            continue
        deadline = next_deadline()
        if deadline is not None and time.monotonic() >= deadline:
            if state.leave is not None:
                break
            if state.status is None:
                stop("timed_out")
            continue
        if runs:
            deadline = min(deadline, state.look)
        if channel.is_open and state.started is not None:
            channel.settle()
        held = state.ended is None and time.monotonic() < state.hold
        if held:
            deadline = min(deadline, state.hold)
        else:
            flush()
        to_write = bool(state.pending) and not held
        if writing != to_write:
            writing = to_write
            if writing:
                poll.register(OUTPUT, select.POLLOUT)
            else:
                poll.unregister(OUTPUT)
        # Never less than nothing, which would be without end: the time may have come meanwhile.
        wait = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000 + 1
        for file, _ in poll.poll(wait):
            if file == INPUT:
                read_input()
            elif file == signals:
                read_signals()
            elif file in streams:
                read_output(file)
            elif file == channel_here:
                channel.act()
    os._exit(0)
