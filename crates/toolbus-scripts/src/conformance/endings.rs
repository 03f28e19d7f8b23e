//! Scripts that end in every way that Python knows, to be compared with `python3 -c` itself: what
//! it writes to standard error, and its exit code.

use std::process::{Command, Stdio};

/// Those of which all versions of Python say the same, but for the lines of source that newer ones
/// show, and the places of its own files.
pub const OF_ANY_VERSION: &[&str] = &[
    "try:\n    {}['a']\nexcept KeyError:\n    raise ValueError('ü')",
    "try:\n    1/0\nexcept ZeroDivisionError as error:\n    raise OSError(2, 'no') from error",
    "class Bad(Exception):\n    def __str__(self): raise ValueError\nraise Bad",
    "def f(n):\n    return f(n - 1) if n else 1 / 0\nf(3)",
    "print('é' + 1)",
    "import sys\nsys.exit('a message')",
    "import sys\nsys.exit(None)",
    "import sys\nsys.exit(255)",
    "import sys\nsys.exit(137)",
    "import sys\nsys.exit(-1)",
    "import sys\nsys.exit([1])",
    "raise SystemExit(7)",
    "exit(5)",
    "quit()",
    "import os\nos._exit(137)",
    "import sys\nsys.excepthook = lambda *what: print('hooked', what[0], file=sys.stderr)\n1/0",
    "import atexit, sys\natexit.register(lambda: print('bye', file=sys.stderr))\n1/0",
    "import warnings\nwarnings.warn('careful')",
    "assert False, 'no'",
    "from nowhere import nothing",
    "",
    "# -*- coding: latin-1 -*-\nimport sys\nprint('é', file=sys.stderr)",
];

/// Those of which each version tells in its own way.
pub const OF_ONE_VERSION: &[&str] = &[
    "x = (1,\n",
    "def f():\n  return\n return",
    "def f(): f()\nf()",
    "import threading\nthread = threading.Thread(target=lambda: 1/0, name='t')\nthread.start()\nthread.join()",
    "import asyncio\nasync def main(): raise RuntimeError('x')\nasyncio.run(main())",
    "x is 1",
];

/// What the interpreter of this machine says of a script, and its exit code.
///
/// # Panics
/// When there is no `python3`.
#[must_use]
pub fn here(source: &str) -> (String, Option<i32>) {
    let output = Command::new("python3")
        .args(["-I", "-c", source])
        .env("LANG", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .expect("python3");
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code())
}
