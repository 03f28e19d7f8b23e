# Becomes `python -c SOURCE` in the process that calls it: the last thing that every runner does with
# an interpreter. `started` is called when nothing of the runner is left but this function, right
# before the first byte of the script is looked at.
#
# Uses built-in modules only, because not every runner has loaded others.

def run_script(source, started):
    prepare_main, remember_source, show_from = script_helpers()
    main = prepare_main(source)
    started()
    code = None
    remember_source(None, source)
    try:
        code = compile(source + "\n", "<string>", "exec", dont_inherit=True)
        remember_source(code, source)
        exec(code, main)
    except SystemExit:
        raise
    except BaseException:
        show_from(code)
        raise


# Runs a script whose prelude says how: `run(source, descriptor, started)` is called in its place. The
# prelude finds, beside the builtins:
#
#   remember_source(code, source)   tracebacks show the lines of what was compiled under `<string>`,
#                                   where this version of Python shows lines at all; without code,
#                                   before it is compiled, for errors of syntax
#   show_from(code)                 of the exception that ends the script, the traceback is shown from
#                                   the frame on that runs this code; without code, none of it
#
# `__main__` is as empty as a script finds it. `run` calls `started()` before it looks at the source.
def run_with_prelude(prelude, source, descriptor, started):
    prepare_main, remember_source, show_from = script_helpers()
    prepare_main(source)
    names = {
        "__name__": "<prelude>", "remember_source": remember_source, "show_from": show_from,
    }
    exec(compile(prelude, "<prelude>", "exec", dont_inherit=True), names)
    names["run"](source, descriptor, started)


# What both need. Nothing in it is a global name: those go when `__main__` is made empty.
def script_helpers():
    import sys

    def prepare_main(source):
        sys.argv[:] = ["-c"]
        if hasattr(sys, "orig_argv"):
            sys.orig_argv[:] = [sys.executable, "-c", source]
        # Lines come out when they are printed: what a script that is killed had to say is kept, and
        # both streams merge in the order in which they were written.
        sys.stdout.reconfigure(line_buffering=True)
        sys.stderr.reconfigure(line_buffering=True)

        main = sys.modules["__main__"].__dict__
        for name in [name for name in main if not name.startswith("__")]:
            del main[name]
        return main

    # Since this version `-c` shows source lines, and would show those of the command line.
    def remember_source(code, source):
        if sys.version_info < (3, 13):
            return
        import linecache
        if code is None:
            linecache.cache.pop("<string>", None)
            return
        lines = [line + "\n" for line in source.splitlines()]
        linecache.cache["<string>"] = len(source), None, lines, "<string>"
        if hasattr(linecache, "_interactive_cache"):
            linecache._register_code(code, source, "<string>")

    def show_from(code):
        show = sys.excepthook

        def hook(kind, value, trace):
            while trace and trace.tb_frame.f_code is not code:
                trace = trace.tb_next
            show(kind, value.with_traceback(trace), trace)

        sys.excepthook = hook

    return prepare_main, remember_source, show_from


# Gives the process that is to be the script its input, and makes it the script. `begin` waits for the
# word.

def become_script(source, data, prelude, begin):
    import os
    import sys

    os.environ["ROCKBOT_INPUT"] = ""
    # Children get the input too, unless it is near the kernel's limit for one string: then starting
    # any program would fail.
    if len(data) < 96 << 10:
        os.environ["ROCKBOT_INPUT"] = data.decode()
    else:
        os.unsetenv("ROCKBOT_INPUT")
        os.environ._data[b"ROCKBOT_INPUT"] = data
    del data
    sys.path.insert(0, "")
    if prelude is None:
        run_script(source, begin)
    else:
        run_with_prelude(prelude, source, CHANNEL, begin)
