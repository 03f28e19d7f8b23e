# Runs in a packages pod, as its script: has a set of packages in the volume of sets.
#
# A set appears by one rename, whole or not at all. The time of its folder says when it was last asked
# for: managers ask again after a while, and what was asked for lately is not removed, because scripts
# may be using it. Everybody's group is the same, so that whoever comes later can remove what is here.

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

SETS = "/packages"
SIZE = ".size"
AGENT = ".agent"
HALF_MADE = ".half-made-"
HALF_MADE_SECONDS = 2 * 3600  # far more than making one takes, and an hour for clocks that are not right

order = json.loads(os.environ.pop("ROCKBOT_INPUT"))
target = os.path.join(SETS, order["key"])


def size(folder):
    """What it takes up; makes its folders everybody's to remove on the way."""
    total = 0
    for path, folders, files in os.walk(folder):
        for name in folders + files:
            try:
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
            except FileNotFoundError:
                pass
    return total


def give_to_group(folder):
    for path, _, _ in os.walk(folder):
        os.chmod(path, 0o775)


def check_size(staging):
    if size(staging) > order["set_bytes"]:
        sys.exit("the packages take more than %d bytes" % order["set_bytes"])


def run_pip(staging, tree, scratch):
    environment = dict(os.environ, HOME=scratch, TMPDIR=scratch, PIP_CONFIG_FILE=os.devnull,
                       PIP_INDEX_URL=order["index"])
    command = [sys.executable, "-I", "-c", order["pip"], "install", "--target", tree, "--only-binary", ":all:",
               "--no-cache-dir", "--no-input", "--quiet", "--disable-pip-version-check",
               "--no-warn-script-location", "--retries", "1", "--timeout", "15"]
    if order["trusted_host"]:
        command += ["--trusted-host", order["trusted_host"]]
    pip = subprocess.Popen(command + ["--", *order["requirements"]], env=environment,
                           stdin=subprocess.DEVNULL)
    while True:
        try:
            code = pip.wait(0.5)
            break
        except subprocess.TimeoutExpired:
            try:
                check_size(staging)
            except SystemExit:
                pip.kill()
                pip.wait()
                raise
    if code:
        say_what_the_index_says()
        sys.exit(code)


def say_what_the_index_says():
    """pip tells only that it found nothing."""
    if "@" in order["index"]:
        return
    for name in order["names"][:4]:
        try:
            urllib.request.urlopen("%s/%s/" % (order["index"].rstrip("/"), name), timeout=5).close()
        except urllib.error.HTTPError as error:
            print("the index answers %d %s for %s" % (error.code, error.reason, name), flush=True)
        except OSError as error:
            print("the index cannot be asked for %s: %s" % (name, error), flush=True)


def install():
    staging = tempfile.mkdtemp(prefix=HALF_MADE, dir=SETS)
    try:
        os.chmod(staging, 0o775)
        tree, scratch = os.path.join(staging, "tree"), os.path.join(staging, "scratch")
        os.mkdir(tree)
        os.mkdir(scratch)
        run_pip(staging, tree, scratch)
        check_size(staging)
        give_to_group(tree)
        # Both are new files: what the packages have under these names is theirs, and is not written.
        for name, text in (AGENT, order["agent"]), (SIZE, str(size(tree))):
            with open(os.path.join(tree, name), "x") as file:
                file.write(text)
        try:
            os.rename(tree, target)
        except OSError:
            # Somebody else had it in the meantime.
            if not is_set(target):
                raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def is_set(path):
    return os.path.exists(os.path.join(path, SIZE))


def agent_of(path):
    """Who had a set installed; nobody, for sets that were there before this was written down."""
    try:
        with open(os.path.join(path, AGENT)) as file:
            return file.read(64)
    except OSError:
        return ""


def make_room():
    """Removes what was unused for longest, where there is too much; returns what is left, and what of it
    this agent had installed and cannot go yet. Others do the same at the same time, so whatever is listed
    may be gone when it is looked at."""
    sets = []
    own = 0
    now = time.time()
    for entry in os.scandir(SETS):
        try:
            used = entry.stat(follow_symlinks=False).st_mtime
            if entry.name.startswith(HALF_MADE):
                if used < now - HALF_MADE_SECONDS:
                    shutil.rmtree(entry.path, ignore_errors=True)
                continue
            with open(os.path.join(entry.path, SIZE)) as file:
                sets.append((used, int(file.read()), entry.path))
            if used > now - order["kept_seconds"] and agent_of(entry.path) == order["agent"]:
                own += sets[-1][1]
        except (OSError, ValueError):
            pass  # not a set, or not any more
    total = sum(taken for _, taken, _ in sets)
    for used, taken, path in sorted(sets):
        if total <= order["cache_bytes"] or used > now - order["kept_seconds"]:
            break
        trash = tempfile.mkdtemp(prefix=HALF_MADE, dir=SETS)
        try:
            os.rename(path, os.path.join(trash, "set"))
        except FileNotFoundError:
            pass  # somebody else removes it
        shutil.rmtree(trash, ignore_errors=True)
        total -= taken
    return total, own


def check_room():
    total, own = make_room()
    if total >= order["cache_bytes"]:
        sys.exit("packages that were used a short while ago take up all of the %d bytes for them"
                 % order["cache_bytes"])
    if own >= order["agent_bytes"]:
        sys.exit("packages that were used a short while ago, and that this agent asked for, take up all of"
                 " the %d bytes of one agent" % order["agent_bytes"])


def main():
    os.umask(0o002)
    if not is_set(target):
        check_room()
        install()
        make_room()
    os.utime(target)


main()
