# What a script holds, and may hold. Looked at twenty times a second: the kernel may have killed one
# process of it alone, and no limit of the kernel counts all of its memory everywhere, its files, or
# its locks.

def watch_limits(places):
    import os

    # Every how many looks locks are counted: the kernel stops all locking on the machine for it.
    LOCKS_LOOKS = 5
    FILE_BYTES = 1 << 10        # about what the kernel holds for a file in memory beside its content
    SOCKET_BYTES = 208 << 10    # the most that one socket may buffer, which is charged to no process
    MAPPING_BYTES = 256         # about what the kernel holds for one mapping of a process
    MAPPINGS_TEXT = 1 << 20     # some ten thousand mappings; a process with more is over the limit
    # Shared memory without a file, and the largest piece of it that can be made. One stays as large as
    # it was made while any page of it is mapped anywhere, and only the mapped pages show: so each that
    # shows counts as that large.
    SHARED, SHARED_BYTES = b"/dev/zero (deleted)", 4 << 20

    def read_number(path, word=None):
        try:
            with open(path) as file:
                for line in file:
                    parts = line.split()
                    if word is None or parts[0] == word:
                        return int(parts[-1])
        except (OSError, ValueError, IndexError):
            pass
        return 0

    def out_of_memory_kills():
        return (read_number("/sys/fs/cgroup/memory.events", "oom_kill")
                + read_number("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill"))

    # What the lines with these names come to, of a process that may have ended.
    def add_lines(process, file, names):
        total = 0
        try:
            with open("/proc/%s/%s" % (process, file), "rb") as lines:
                for line in lines:
                    name, _, value = line.partition(b":")
                    if name in names:
                        total += int(value.split()[0]) << 10
        except (FileNotFoundError, ProcessLookupError):
            pass
        return total

    def resident(process):
        return add_lines(process, "status", (b"VmRSS", b"VmSwap", b"VmPTE"))

    # With shared pages divided among those who share them. Files in memory and shared memory without a
    # file are counted as such.
    def proportional(process):
        shared = add_lines(process, "smaps_rollup", (b"Pss_Anon", b"Pss_File", b"SwapPss"))
        # Before Linux 5.9 there is only the sum.
        return shared + add_lines(process, "status", (b"VmPTE",)) if shared else resident(process)

    # Raises PermissionError for a process that does not allow inspection.
    def mappings(processes):
        total, pieces = 0, set()
        for process in processes:
            try:
                with open("/proc/%s/maps" % process, "rb") as file:
                    text = file.read(MAPPINGS_TEXT)
            except (FileNotFoundError, ProcessLookupError):
                continue
            if len(text) == MAPPINGS_TEXT:
                raise PermissionError
            total += text.count(b"\n") * MAPPING_BYTES
            if SHARED in text:
                for line in text.splitlines():
                    if line.endswith(SHARED):
                        pieces.add(line.split()[4])
        return total + len(pieces) * SHARED_BYTES

    def measure_memory():
        processes = [name for name in os.listdir("/proc") if name.isdigit()]
        outside = read_number("/proc/net/sockstat") * SOCKET_BYTES
        for place in map(os.fstatvfs, places):
            outside += (place.f_blocks - place.f_bfree) * place.f_frsize
            outside += (place.f_files - place.f_ffree) * FILE_BYTES
        outside += mappings(processes)
        total = outside + sum(map(resident, processes))
        if total > min(watch.memory_bytes, watch.peak):
            # Pages that processes share were counted for each of them: looked at again, more slowly.
            total = outside + sum(map(proportional, processes))
        return total

    # A process that does not allow inspection counts as over any limit. It may start to do so between
    # two reads of one measurement.
    def sample_memory():
        try:
            return measure_memory()
        except PermissionError:
            return watch.memory_bytes + 1

    # Those of this namespace; the ones of open files (OFDLCK) have no owner and show in every one.
    def count_locks(enough):
        count = 0
        try:
            with open("/proc/locks") as file:
                for line in file:
                    count += "OFDLCK" not in line
                    if count > enough:
                        break
        except OSError:
            pass  # not every runtime's kernel has it
        return count

    class Watch:
        memory_bytes = 0    # where no control group bounds it
        peak = 0
        looks = 0

        def begin(self, settings):
            self.settings = settings
            self.memory_bytes = settings["memory_bytes"]
            self.kills_before = out_of_memory_kills()

        def is_out_of_memory(self):
            return out_of_memory_kills() > self.kills_before

        # Why the script is to be stopped.
        def find_exceeded(self):
            if self.is_out_of_memory():
                return "out_of_memory"
            if self.memory_bytes:
                self.peak = max(self.peak, sample_memory())
                if self.peak > self.memory_bytes:
                    return "out_of_memory"
            files = sum(place.f_files - place.f_ffree for place in map(os.fstatvfs, places))
            if files > self.settings["inodes"]:
                return "too_many_files"
            self.looks += 1
            enough = self.settings["file_locks"]
            if self.looks % LOCKS_LOOKS == 0 and count_locks(enough) > enough:
                return "too_many_file_locks"
            return None

        # As far as it was seen.
        def memory_peak(self, largest_process):
            return max(self.peak, largest_process, read_number("/sys/fs/cgroup/memory.peak"),
                       read_number("/sys/fs/cgroup/memory/memory.max_usage_in_bytes"))

    watch = Watch()
    return watch
