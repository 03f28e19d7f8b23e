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
