# Becomes `python -c SOURCE` in the process that calls it: the last thing that every runner does with
# an interpreter. `started` is called when nothing of the runner is left but this function, right
# before the first byte of the script is looked at.
#
# Uses built-in modules only, because not every runner has loaded others.

def run_script(source, started):
    import sys

    sys.argv[:] = ["-c"]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [sys.executable, "-c", source]
    # Lines come out when they are printed: what a script that is killed had to say is kept, and both
    # streams merge in the order in which they were written.
    sys.stdout.reconfigure(line_buffering=True)
    sys.stderr.reconfigure(line_buffering=True)

    main = sys.modules["__main__"].__dict__
    for name in [name for name in main if not name.startswith("__")]:
        del main[name]

    started()
    code = linecache = None
    if sys.version_info >= (3, 13):
        # Since this version `-c` shows source lines, and would show those of the command line.
        import linecache
        linecache.cache.pop("<string>", None)
    try:
        code = compile(source + "\n", "<string>", "exec", dont_inherit=True)
        if linecache:
            lines = [line + "\n" for line in source.splitlines()]
            linecache.cache["<string>"] = len(source), None, lines, "<string>"
            if hasattr(linecache, "_interactive_cache"):
                linecache._register_code(code, source, "<string>")
        exec(code, main)
    except SystemExit:
        raise
    except BaseException:
        show = sys.excepthook

        def hook(kind, value, trace):
            while trace and trace.tb_frame.f_code is not code:
                trace = trace.tb_next
            show(kind, value.with_traceback(trace), trace)

        sys.excepthook = hook
        raise


# Gives the process that is to be the script its input, and makes it the script. `begin` waits for the
# word.

def become_script(source, data, begin):
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
    run_script(source, begin)
