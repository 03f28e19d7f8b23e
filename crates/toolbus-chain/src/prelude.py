# What a chain finds in Python: `tools`, `call` and `artifacts`. Runs inside the sandbox, in the
# process that becomes the script, and imports little: whoever waits for a chain waits for this.
#
# A request to the host is a frame on a socket: four bytes of length and four of a number, most
# significant first, and JSON; its response has the same number. Whoever waits for a response reads
# for all: the one that reads hands out what it reads, and leaves the reading to another that waits.

import _socket
import _thread
import binascii
import json
import os
import sys

PIECE = 384 << 10        # bytes of a file in one request
FETCHED = 16 << 20       # files up to here are there when a call returns
CUT = 200                # names that an error lists
OPEN = 48                # requests without a response; more wait here, so that sending never does


class ToolError(RuntimeError):
    """A tool failed."""


class ToolDenied(PermissionError):
    """A call was refused, and its tool was not run."""


ToolError.__module__ = ToolDenied.__module__ = "builtins"


class Answer:
    """A response that may not be here yet."""

    def __init__(self):
        self.value = None
        self.ended = False
        self.future = None


class Channel:
    def __init__(self, descriptor):
        self.socket = _socket.socket(fileno=descriptor)
        self.guard = _thread.allocate_lock()    # everything below
        self.sending = _thread.allocate_lock()
        self.answers = {}
        self.unsent = []
        self.number = 0
        self.arrived = bytearray()
        self.reads = False
        self.waiting = []
        self.loop = None
        self.process = os.getpid()

    def send(self, request):
        if os.getpid() != self.process:
            raise RuntimeError("tools are called by the first process of a chain, not by its children")
        body = json.dumps(request, default=plain, allow_nan=False).encode()
        if len(body) > 1 << 20:
            raise ValueError(
                f"a call of {len(body)} bytes is over the limit of {1 << 20}: "
                "put what is large among the artifacts, with artifacts.put(path)")
        answer = Answer()
        with self.guard:
            self.number += 1
            self.unsent.append((self.number, body, answer))
        self.send_waiting()
        return answer

    def send_waiting(self):
        while True:
            with self.guard:
                if not self.unsent or len(self.answers) >= OPEN:
                    return
                number, body, answer = self.unsent.pop(0)
                self.answers[number] = answer
            frame = len(body).to_bytes(4, "big") + number.to_bytes(4, "big") + body
            try:
                with self.sending:
                    self.socket.sendall(frame)
            except OSError:
                return  # it is closed, which whoever reads finds out

    def ask(self, request):
        answer = self.send(request)
        self.wait(answer)
        return result_of(answer)

    def wait(self, answer):
        while True:
            with self.guard:
                if answer.ended:
                    return
                is_reader = not self.reads
                if is_reader:
                    self.reads = True
                else:
                    gate = _thread.allocate_lock()
                    gate.acquire()
                    self.waiting.append((answer, gate))
            if not is_reader:
                gate.acquire()
                continue
            try:
                self.read(0)
            finally:
                with self.guard:
                    self.reads = False
                    if self.waiting:
                        self.waiting.pop(0)[1].release()

    def read(self, flags):
        try:
            piece = self.socket.recv(1 << 16, flags)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        with self.guard:
            if not piece:
                waiting = [*self.answers.values(), *(answer for *_, answer in self.unsent)]
                self.answers.clear()
                self.unsent.clear()
                for answer in waiting:
                    self.end(answer, {"error": {"code": "closed", "message": "the channel is closed"}})
                return
            self.arrived += piece
            while len(self.arrived) >= 8:
                end = 8 + int.from_bytes(self.arrived[:4], "big")
                if len(self.arrived) < end:
                    break
                answer = self.answers.pop(int.from_bytes(self.arrived[4:8], "big"), None)
                body = bytes(self.arrived[8:end])
                del self.arrived[:end]
                if answer is not None:
                    self.end(answer, json.loads(body))
        if self.unsent:
            self.send_waiting()

    def end(self, answer, value):
        answer.value = value
        answer.ended = True
        for at, (other, gate) in enumerate(self.waiting):
            if other is answer:
                del self.waiting[at]
                gate.release()
                break
        if answer.future is not None:
            loop, future = answer.future
            loop.call_soon_threadsafe(wake, future)

    def future_of(self, answer):
        import asyncio
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self.guard:
            if answer.ended:
                future.set_result(None)
                return future
            answer.future = loop, future
            watched = self.loop is loop
            self.loop = loop
        if not watched:
            loop.add_reader(self.socket.fileno(), self.read_ready)
        return future

    def read_ready(self):
        with self.guard:
            if self.reads:
                return
            self.reads = True
        try:
            self.read(_socket.MSG_DONTWAIT)
        finally:
            with self.guard:
                self.reads = False
                if self.waiting:
                    self.waiting.pop(0)[1].release()


def wake(future):
    if not future.done():
        future.set_result(None)


def result_of(answer):
    error = answer.value.get("error")
    if error is not None:
        raise ToolError(error.get("message", "the host did not answer"))
    return answer.value


def plain(value):
    """What stands for a value that is no JSON: a handle for its artifact or its text."""
    if isinstance(value, Handle):
        value.finish()
        reference = value.ref
        return {"$artifact": reference} if reference is not None else value.text
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    raise TypeError(
        f"{type(value).__name__} cannot be an argument of a tool: give text, numbers, lists, "
        "dicts, or what another tool returned")


def convert(value):
    """References that are texts become what stands for them, which json.dumps would not do."""
    if isinstance(value, Ref):
        return {"$artifact": str(value)}
    if isinstance(value, dict):
        return {key: convert(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [convert(item) for item in value]
    return value


class Ref(str):
    """The name of an artifact. As an argument of a tool it stands for the whole of it."""


class Path(str):
    """The path of a file, which may be awaited."""

    def __await__(self):
        return self
        yield


class Handle:
    """What a call gave back. Awaiting it, or reading anything of it, waits for its end."""

    def __init__(self, channel, name, answer):
        self._channel, self._name, self._answer = channel, name, answer
        self._result = None
        self._observed = False

    def __await__(self):
        if not self._answer.ended:
            yield from self._channel.future_of(self._answer).__await__()
        self.finish()
        return self

    def finish(self):
        """Waits for the end of the call, and raises where it was refused or failed."""
        self._observed = True
        if self._result is None:
            if not self._answer.ended:
                self._channel.wait(self._answer)
            self._result = result_of(self._answer)["result"]
            for file in self._result.get("files", ()):
                if file["bytes"] <= FETCHED:
                    fetch(self._channel, file["artifact"], file["path"])
        status = self._result["status"]
        if status == "denied":
            raise ToolDenied(f"{self._name}: {self._result['text']}")
        if status != "ok":
            raise ToolError(f"{self._name}: {self._result['text']}")
        return self._result

    @property
    def status(self):
        return self.finish()["status"]

    @property
    def text(self):
        return self.finish()["text"]

    @property
    def structured(self):
        return self.finish().get("structured")

    @property
    def ref(self):
        reference = self.finish().get("artifact")
        return None if reference is None else Ref(reference)

    @property
    def files(self):
        return self.finish().get("files", [])

    def materialize(self):
        """Writes all of the result to a file, and gives its path; the same one the next time."""
        reference = self.ref
        if reference is not None:
            return Path(fetch(self._channel, reference, f"artifacts/{reference}"))
        path = f"artifacts/text_{id(self)}.txt"
        if not os.path.exists(path):
            os.makedirs("artifacts", exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(self.text)
        return Path(os.path.abspath(path))

    def __str__(self):
        return self.text

    def __repr__(self):
        return f"<result of {self._name}>"


def fetch(channel, reference, path):
    if os.path.exists(path):
        return os.path.abspath(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    part, offset = f"{path}.{_thread.get_ident()}.part", 0
    with open(part, "wb") as file:
        while True:
            answer = channel.ask({"read": reference, "offset": offset, "length": PIECE})
            piece = binascii.a2b_base64(answer["data"])
            file.write(piece)
            offset += len(piece)
            if answer["last"]:
                break
    os.replace(part, path)
    return os.path.abspath(path)


class Tools:
    """The tools that this chain may call: tools.NAME(argument=…), or tools["any-name"](…)."""

    def __init__(self, channel):
        self.__channel = channel
        self.__names = None
        self.__handles = []

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self.__known():
            known = sorted(self.__known())
            more = f" and {len(known) - CUT} more" if len(known) > CUT else ""
            raise AttributeError(f"no tool '{name}'; there are {', '.join(known[:CUT])}{more}")
        return self[name]

    def __getitem__(self, name):
        def tool(*unnamed, **arguments):
            if unnamed:
                raise TypeError(f"{name}() takes its arguments by name: {name}(argument=value)")
            return self.__call(name, arguments)

        tool.__name__ = tool.__qualname__ = name
        return tool

    def __contains__(self, name):
        return name in self.__known()

    def __iter__(self):
        return iter(sorted(self.__known()))

    def __dir__(self):
        return sorted(self.__known())

    def __known(self):
        if self.__names is None:
            self.__names = frozenset(self.__channel.ask({"names": True})["names"])
        return self.__names

    def __call(self, name, arguments):
        request = {"call": name, "arguments": convert(arguments)}
        handle = Handle(self.__channel, name, self.__channel.send(request))
        if is_async():
            self.__handles.append(handle)
        else:
            handle.finish()
        return handle

    def _finish(self):
        """Waits for calls that nobody has waited for: what went wrong with them is told."""
        for handle in self.__handles:
            if not handle._observed:
                handle.finish()


def is_async():
    events = sys.modules.get("asyncio.events")
    return events is not None and events._get_running_loop() is not None


class Artifacts:
    """Large values that are kept outside the conversation."""

    def __init__(self, channel):
        self.__channel = channel
        self.__uploads = 0

    def put(self, path, content_type=None):
        """Keeps a file as an artifact, and gives its name, which stands for it as an argument."""
        self.__uploads += 1
        upload = f"{_thread.get_ident()}-{self.__uploads}"
        with open(path, "rb") as file:
            piece = file.read(PIECE)
            while True:
                following = file.read(PIECE)
                answer = self.__channel.ask({
                    "put": upload,
                    "name": os.path.basename(os.fspath(path)),
                    "mediaType": content_type,
                    "data": binascii.b2a_base64(piece, newline=False).decode(),
                    "last": not following,
                })
                if not following:
                    return Ref(answer["artifact"])
                piece = following


def contains(node, kinds):
    """Whether there is one of these in what runs by itself, and not in a function or a class."""
    import _ast
    if isinstance(node, kinds):
        return True
    if isinstance(node, (_ast.FunctionDef, _ast.AsyncFunctionDef, _ast.ClassDef, _ast.Lambda)):
        return False
    for field in node._fields:
        value = getattr(node, field, None)
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, _ast.AST) and contains(item, kinds):
                return True
    return False


def compile_chain(source):
    """The code of a chain, and whether it defines the chain as a function. The text is not touched,
    so lines and columns are as they were written. Only a chain that returns something becomes the
    body of a function: in any other, names are those of a module."""
    import _ast
    awaits = _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = compile(source, "<string>", "exec", _ast.PyCF_ONLY_AST | awaits, dont_inherit=True)
    if not any(contains(statement, _ast.Return) for statement in tree.body):
        return compile(tree, "<string>", "exec", awaits, dont_inherit=True), False

    kinds = _ast.Await, _ast.AsyncFor, _ast.AsyncWith
    is_async = any(contains(statement, kinds) for statement in tree.body)
    around = "async def _chain(): pass" if is_async else "def _chain(): pass"
    whole = compile(around, "<string>", "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
    whole.body[0].body = tree.body
    return compile(whole, "<string>", "exec", dont_inherit=True), True


def run_chain(code, is_function, namespace):
    if is_function:
        exec(code, namespace)
        value = namespace.pop("_chain")()
    else:
        # What is compiled with `await` gives a coroutine, and anything else nothing.
        value = eval(code, namespace)
    if hasattr(value, "cr_await"):
        import asyncio
        value = asyncio.run(value)
    return value if is_function else None


def show(value):
    if value is None:
        return
    if isinstance(value, Handle):
        value = value.text
    if not isinstance(value, str):
        try:
            value = json.dumps(value, default=plain, ensure_ascii=False)
        except (TypeError, ValueError):
            value = repr(value)
    print(value)


def run(source, descriptor, started):
    main = sys.modules["__main__"].__dict__
    channel = Channel(descriptor)
    tools = Tools(channel)
    main.update(
        tools=tools, call=lambda name, **arguments: tools[name](**arguments),
        artifacts=Artifacts(channel), ToolError=ToolError, ToolDenied=ToolDenied)
    channel.send({"started": True})  # the host counts the time of a chain from here
    started()
    code = None
    remember_source(None, source)
    try:
        code, is_function = compile_chain(source)
        remember_source(code, source)
        value = run_chain(code, is_function, main)
        tools._finish()
        show(value)
    except SystemExit:
        raise
    except BaseException:
        show_from(frame_of(code))
        raise


def frame_of(code):
    """The code whose frames are the chain's: that of the function, where it is one."""
    for constant in code.co_consts if code is not None else ():
        if getattr(constant, "co_name", None) == "_chain":
            return constant
    return code
