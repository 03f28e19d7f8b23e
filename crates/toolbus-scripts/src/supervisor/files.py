# Files of a script: what it is given, and what it left. The limits come with the settings.

def write_files(files):
    """In the working folder of the process that is to be the script."""
    import os

    if files:
        os.mkdir("input", 0o700)
    for name, content in files:
        with open(b"input/" + name, "xb") as file:
            file.write(content)


def tell_files(tell, work, settings):
    """What is right below the output folder, when every process of the script is dead: nothing moves
    any more. Links are not followed, special files not opened. Files that the manager would not take
    are told by name and size alone."""
    import binascii
    import os
    import stat

    PIECE = 32 << 10

    def text(value):
        return binascii.b2a_base64(value, newline=False)

    def refuse(name, reason):
        tell(b"omitted", text(name) + b" " + text(reason.encode()))

    def is_name(name):
        try:
            letters = name.decode()
        except UnicodeDecodeError:
            return False
        return (len(name) <= settings["name_bytes"] and letters[0] not in ".-" and "\\" not in letters
                and letters.strip() == letters
                and not any(letter < " " or "\x7f" <= letter <= "\x9f" for letter in letters))

    def why_not(found):
        if stat.S_ISLNK(found.st_mode):
            return "it is a link"
        if stat.S_ISDIR(found.st_mode):
            return "it is a folder"
        if not stat.S_ISREG(found.st_mode):
            return "it is not a regular file"
        if found.st_nlink > 1:
            return "it has other names, too (hard links)"

    def list_names():
        names = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(names) == settings["entries"]:
                    refuse(b"*", "the folder has more than %d entries" % len(names))
                    break
                names.append(os.fsencode(entry.name))
        return sorted(names)

    def tell_file(name):
        nonlocal count, room
        reason = why_not(os.stat(name, dir_fd=folder, follow_symlinks=False))
        if reason:
            return refuse(name, reason)
        file = os.open(name, flags, dir_fd=folder)
        try:
            size = os.fstat(file).st_size
            tell(b"file", b"%s %d" % (text(name), size))
            if not is_name(name) or count == 0 or size > room:
                return
            count -= 1
            room -= size
            while size > 0 and (piece := os.read(file, min(size, PIECE))):
                size -= len(piece)
                tell(b"part", text(piece))
        finally:
            os.close(file)

    count, room = settings["files"], settings["files_bytes"]
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        folder = os.open("output", flags | os.O_DIRECTORY, dir_fd=work)
    except FileNotFoundError:
        return
    except OSError:
        return refuse(b"*", "the folder cannot be read")
    for name in list_names():
        try:
            tell_file(name)
        except OSError as error:
            refuse(name, error.strerror)
