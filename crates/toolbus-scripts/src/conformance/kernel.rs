//! What a script must not ask of the kernel.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::host;
use super::stage::{Stage, script};

/// `call` makes a system call by its number, which must be refused as forbidden or as unknown.
const CALL: &str = r"
import ctypes, platform
libc = ctypes.CDLL(None, use_errno=True)
intel = platform.machine() == 'x86_64'
def call(name, number, *arguments):
    ctypes.set_errno(0)
    answer = libc.syscall(number, *arguments)
    if not answer and name.startswith('clone'): os._exit(99)
    print(name, 'refused' if answer == -1 and ctypes.get_errno() in (1, 38) else f'{answer} {ctypes.get_errno()}')
";

pub(super) async fn parts_of_the_kernel_are_closed(stage: Stage) {
    let source = r"
numbers = dict(bpf=321, perf_event_open=298, keyctl=250, add_key=248, request_key=249, userfaultfd=323,
    io_uring_setup=425, io_uring_enter=426, io_uring_register=427, open_by_handle_at=304, name_to_handle_at=303,
    init_module=175, finit_module=313, delete_module=176, kexec_load=246, reboot=169, swapon=167, acct=163, syslog=103,
    fanotify_init=300, personality=135, memfd_create=319, memfd_secret=447, shmget=29, msgget=68, semget=64, mq_open=240,
    iopl=172, ioperm=173, modify_ldt=154, sethostname=170, settimeofday=164, clock_settime=227, adjtimex=159,
    quotactl=179, vhangup=153, rt_sigqueueinfo=129, rt_tgsigqueueinfo=297, vmsplice=278, io_setup=206,
    inotify_init=253, inotify_init1=294, x32_getpid=0x40000000 + 39, x32_legacy=520) if intel else dict(bpf=280,
    perf_event_open=241, keyctl=219, add_key=217, request_key=218, userfaultfd=282, io_uring_setup=425,
    io_uring_enter=426, io_uring_register=427, open_by_handle_at=265, name_to_handle_at=264, init_module=105,
    finit_module=273, delete_module=106, kexec_load=104, reboot=142, swapon=224, acct=89, syslog=116, fanotify_init=262,
    personality=92, memfd_create=279, memfd_secret=447, shmget=194, msgget=186, semget=190, mq_open=180,
    sethostname=161, settimeofday=170, clock_settime=112, adjtimex=171, quotactl=60, vhangup=58,
    rt_sigqueueinfo=138, rt_tgsigqueueinfo=240, vmsplice=75, io_setup=0, inotify_init1=26)
for name, number in numbers.items(): call(name, number, 0x10000000, 0, 0, 0, 0)
# With rubbish in the upper half that the kernel ignores.
for request in (0x5412, 0x541C): call('type into a terminal', 16 if intel else 29, 0, request | 1 << 40, b'x')
";

    stage.attack(39, &format!("{CALL}{source}")).await;
}

pub(super) async fn no_namespace_can_be_made(stage: Stage) {
    let source = r"
flags = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
for flag in flags:
    call(f'clone {flag:#x}', 56 if intel else 220, flag | 17, 0, 0, 0, 0)
    call(f'unshare {flag:#x}', 272 if intel else 97, flag)
call('clone3', 435, ctypes.create_string_buffer(88), 88)
call('setns', 308 if intel else 268, 0, 0)
import subprocess
for program in (['unshare', '--user', 'true'], ['unshare', '--net', 'true'], ['nsenter', '--target', '1', '--all', 'true']):
    def run():
        if subprocess.run(program, capture_output=True).returncode: raise OSError
    attempt(' '.join(program), run)
";

    stage.attack(19, &format!("{CALL}{source}")).await;
}

pub(super) async fn nothing_can_be_mounted(stage: Stage) {
    let source = r"
numbers = dict(mount=165, umount2=166, pivot_root=155, chroot=161, fsopen=430, open_tree=428, move_mount=429, fsconfig=431,
    fsmount=432, fspick=433, mount_setattr=442) if intel else dict(mount=40, umount2=39, pivot_root=41, chroot=51,
    fsopen=430, open_tree=428, move_mount=429, fsconfig=431, fsmount=432, fspick=433, mount_setattr=442)
for name, number in numbers.items(): call(name, number, b'/tmp', b'/tmp', b'tmpfs', 0, 0)
mounts = [line.split() for line in open('/proc/self/mounts')]
print('the root is read-only', 'refused' if [m for m in mounts if m[1] == '/'][-1][3].startswith('ro') else mounts)
";

    stage.attack(12, &format!("{CALL}{source}")).await;
}

pub(super) async fn limits_cannot_be_raised(stage: Stage) {
    let source = r"
import resource
for name in ('CORE', 'NOFILE', 'NPROC', 'FSIZE', 'AS'):
    limit = getattr(resource, 'RLIMIT_' + name)
    soft, hard = resource.getrlimit(limit)
    def set_to(value):
        # Python has an error of its own for this refusal.
        try: resource.setrlimit(limit, (value, value))
        except ValueError as error:
            if 'not allowed' in str(error): raise PermissionError(errno.EPERM, 'refused')
            raise OSError(errno.EINVAL, str(error))
    deny('raise ' + name, lambda: set_to(hard + 1))
    deny('lift ' + name, lambda: set_to(-1))
deny('lower the own number', lambda: os.nice(-20))
deny('priority in the queue', lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
deny('spare this process', lambda: put('/proc/self/oom_score_adj', b'-1000'))
deny('spare the first process', lambda: put('/proc/1/oom_score_adj', b'1000'))
for group in ('/sys/fs/cgroup/memory.max', '/sys/fs/cgroup/pids.max', '/sys/fs/cgroup/cgroup.procs',
              '/sys/fs/cgroup/memory/memory.limit_in_bytes', '/sys/fs/cgroup/memory/cgroup.procs'):
    attempt(group, lambda: put(group, b'max'))
attempt('a group of its own', lambda: os.mkdir('/sys/fs/cgroup/mine'))
";

    stage.attack(20, source).await;
}

pub(super) async fn setuid_programs_give_nothing(stage: Stage) {
    let source = r"
import shutil, subprocess
status = dict(line.split(':\t') for line in open('/proc/self/status') if ':\t' in line)
print('privileges', 'refused' if status['NoNewPrivs'].strip() == '1' else 'to be gained')
for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'):
    print(name, 'refused' if int(status[name], 16) == 0 else status[name])
print('identity', 'refused' if 0 not in os.getresuid() + os.getresgid() and 0 not in os.getgroups() else os.getresuid())
for name in ('setuid', 'setgid'): attempt(name, lambda: getattr(os, name)(0))
attempt('setgroups', lambda: os.setgroups([0]))
for program in ('su', 'mount', 'newgrp', 'passwd', 'sudo', 'pkexec', 'chsh'):
    path = shutil.which(program)
    if not path: continue
    # A program that belongs to root and sets its user still does not run as root.
    def run():
        child = subprocess.Popen([path, '--help'], stdin=-3, stdout=-3, stderr=-3)
        with open(f'/proc/{child.pid}/status') as file: text = file.read()
        child.wait()
        users = [line.split()[1:] for line in text.splitlines() if line.startswith('Uid:')]
        if all('0' not in user for user in users): raise OSError
    attempt(path, run)
";

    stage.attack(10, source).await;
}

pub(super) async fn the_kernels_own_files_cannot_be_written(stage: Stage) {
    let source = r"
for path in ('sys/kernel/core_pattern', 'sysrq-trigger', 'sys/kernel/hostname', 'sys/vm/overcommit_memory',
             'sys/kernel/modprobe', 'sys/net/ipv4/ip_forward', 'sys/fs/binfmt_misc/register', '1/oom_score_adj',
             'sys/kernel/yama/ptrace_scope', 'self/uid_map', 'self/gid_map', 'self/setgroups'):
    attempt('/proc/' + path, lambda: put('/proc/' + path, b'0 0 1'))
for path in ('/sys/kernel/uevent_helper', '/sys/power/state', '/sys/fs/cgroup/release_agent',
             '/sys/fs/cgroup/memory/release_agent', '/sys/kernel/mm/transparent_hugepage/enabled'):
    attempt(path, lambda: put(path, b'x'))
";
    stage.attack(17, source).await;
}

/// What the script says of itself in the other cases, as the machine sees it: of the script's own
/// process, and of one that has left it.
pub(super) async fn the_machine_sees_the_walls_around_every_process(stage: Stage) {
    let mark = host::unique_mark();
    let source = r"
import ctypes, subprocess, time
ctypes.CDLL(None).prctl(15, b'MARK', 0, 0, 0)
subprocess.Popen(['/bin/sh', '-c', 'sleep 300; : MARK'], start_new_session=True)
time.sleep(2)
print('seen')
";

    let outside = tempfile::NamedTempFile::new().expect("a file of the machine");

    let response = stage
        .watch(script(&source.replace("MARK", &mark)), &mark, |found| {
            let are_both_there = found.len() == 2;
            if are_both_there {
                found.iter().for_each(|id| is_walled_in(*id, outside.path()));
            }
            are_both_there
        })
        .await;

    assert_eq!(response.output.as_deref(), Some("seen\n"), "{response:?}");
    stage.assert_no_process(&mark);
}

/// Devices that keep nothing of what is written to them.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// That a process can do nothing to the machine, where a file is that it does not see.
fn is_walled_in(id: i32, outside: &Path) {
    let read = |name: &str| fs::read_to_string(format!("/proc/{id}/{name}")).expect("it lives");
    let status = read("status");
    let value = |name: &str| {
        let found = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.unwrap_or_else(|| panic!("no {name}: {status}")).trim()
    };

    assert_eq!((value("NoNewPrivs"), value("Seccomp")), ("1", "2"));

    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(value(set).trim_start_matches('0'), "", "{set}");
    }

    for set in ["Uid", "Gid", "Groups"] {
        assert!(value(set).split_whitespace().all(|one| one != "0"), "{set} {}", value(set));
    }

    let limits = read("limits");
    for (limit, most) in [("Max core file size", 0), ("Max processes", 64), ("Max open files", 256)]
    {
        let line = limits.lines().find_map(|line| line.strip_prefix(limit)).expect("a limit");
        let hard = line.split_whitespace().nth(1).and_then(|hard| hard.parse::<u64>().ok());
        assert!(hard.is_some_and(|hard| hard <= most), "{limit} {line}");
    }

    for namespace in ["ipc", "mnt", "net", "pid", "uts"] {
        let of =
            |who: &str| fs::read_link(format!("/proc/{who}/ns/{namespace}")).expect("a namespace");
        assert_ne!(of(&id.to_string()), of("self"), "{namespace}");
    }

    // `ID PARENT DEVICE ROOT PLACE OPTIONS … - TYPE …`. Where it can write, it writes into memory
    // or to a device that keeps nothing. The file that nodes keep for last words is behind a folder
    // that it cannot enter.
    for mount in read("mountinfo").lines() {
        let (of_mount, of_system) = mount.split_once(" - ").expect("a mount");
        let words: Vec<_> = of_mount.split(' ').collect();
        let place = words[4];
        let is_writable = words[5].split(',').any(|option| option == "rw");
        let system = of_system.split(' ').next().expect("a type");
        let is_memory = ["tmpfs", "devpts", "mqueue", "proc"].contains(&system);
        let is_device = DEVICES.contains(&place);
        let is_closed = || {
            let found = fs::metadata(format!("/proc/{id}/root{place}")).expect("a mount");
            found.is_file() && found.uid() == 0 && found.mode() & 0o022 == 0
        };
        let is_harmless = is_memory || is_device || place == "/root/termination-log";

        assert!(!is_writable || is_harmless || is_closed(), "{mount}");
    }

    let environment = read("environ");
    for name in ["TOOLBUS", "KUBERNETES"] {
        assert!(!environment.contains(name), "{environment}");
    }

    let inside = format!("/proc/{id}/root{}", outside.display());
    assert!(outside.exists() && !Path::new(&inside).exists(), "it sees {inside}");
}
