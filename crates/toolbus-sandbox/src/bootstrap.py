# Makes an interpreter without `site` what it is with it, and has it run the program that comes on its
# standard input: four bytes of length (most significant first), then the mark of the interpreter's
# bytecode, and the program in that. It was compiled before, since that takes as long as an interpreter
# takes to start. Called with the prefixes of the interpreter and its module path.

import builtins, marshal, posix, sys

def take(count):
    data = b""
    while len(data) < count:
        data += posix.read(0, count - len(data)) or posix._exit(125)
    return data

for name, place in zip(("prefix", "exec_prefix", "base_prefix", "base_exec_prefix"), sys.argv[1:5]):
    setattr(sys, name, place)
sys.path[:] = sys.argv[5:]

import _sitebuiltins
builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
builtins.help = _sitebuiltins._Helper()

program = take(int.from_bytes(take(4), "big"))
if program[:4] != sys.modules["_frozen_importlib_external"].MAGIC_NUMBER:
    sys.exit("the interpreter is another one than when this service was started")
exec(marshal.loads(program[4:]))
