//! The system calls that a script is refused, as programs for the kernel's seccomp filters.
//!
//! A list of what is denied, not of what is allowed: lists of allowed calls have broken honest
//! scripts with every new libc. Denied is what opens namespaces and mounts, looks into other
//! processes, reaches parts of the kernel with a history of holes, holds memory that no limit of
//! ours sees, or makes sockets other than local ones.
//!
//! Invariants: a refused call fails with `EPERM`, or with `ENOSYS` where programs probe for the
//! call and fall back; no filter ever kills but for a foreign architecture, where numbers mean
//! other calls.

use seccompiler::{BpfProgram, TargetArch, sock_filter};
use serde_json::{Value, json};

/// A machine architecture, as `uname -m` calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// `x86_64`
    X86_64,
    /// `aarch64`
    Aarch64,
}

/// Which sockets a program may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Local (`AF_UNIX`) ones only: for scripts.
    Denied,
    /// Those of the internet, too: for installing packages.
    Allowed,
}

/// Calls that fail as if this kernel did not have them. `clone3` takes its flags by pointer, where
/// no filter can look; the C library falls back to `clone`. The others hold memory that belongs to
/// no process and no file system that is measured, or use up what all users of the machine share:
/// requests of asynchronous I/O and instances of inotify.
const ABSENT: &[&str] = &[
    "clone3",
    "io_setup",
    "inotify_init1",
    "memfd_create",
    "memfd_secret",
    "shmget",
    "msgget",
    "semget",
    "mq_open",
];
const ABSENT_ON_X86_64: &[&str] = &["inotify_init"];

/// Calls that are refused whatever their arguments.
#[rustfmt::skip]
const REFUSED: &[&str] = &[
    // Namespaces, mounts, the system itself.
    "unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree",
    "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "swapon", "swapoff", "reboot",
    "sethostname", "setdomainname", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime",
    "acct", "quotactl", "quotactl_fd", "syslog", "vhangup", "init_module", "finit_module",
    "delete_module", "kexec_load", "kexec_file_load",
    // Other processes.
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp",
    "move_pages", "migrate_pages",
    // Signals whose sender can be made up.
    "rt_sigqueueinfo", "rt_tgsigqueueinfo",
    // Memory that a pipe holds, and no process shows.
    "vmsplice",
    // Parts of the kernel that scripts have no business with.
    "bpf", "perf_event_open", "io_uring_setup", "io_uring_enter", "io_uring_register",
    "userfaultfd", "keyctl", "add_key", "request_key", "open_by_handle_at", "name_to_handle_at",
    "fanotify_init", "lookup_dcookie", "nfsservctl", "personality",
];
const REFUSED_ON_X86_64: &[&str] = &["iopl", "ioperm", "modify_ldt", "uselib", "ustat", "sysfs"];

/// Every flag of `clone` that makes a namespace.
const NAMESPACE_FLAGS: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];
/// Terminal controls that type on somebody's behalf.
const TERMINAL_INJECTION: [u32; 2] = [0x5412, 0x541C];
/// Commands of `fcntl` for locks of open files, which have no owner, so that nobody can count whose
/// they are.
const UNOWNED_LOCKS: [libc::c_int; 2] = [libc::F_OFD_SETLK, libc::F_OFD_SETLKW];
/// Of a mapping that is shared and has no file; either kind of sharing has the first bit.
const SHARED_WITHOUT_FILE: u32 = (libc::MAP_SHARED | libc::MAP_ANONYMOUS).unsigned_abs();

const FAMILIES_OF_SCRIPTS: &[libc::c_int] = &[libc::AF_UNIX];
/// `AF_NETLINK` because resolvers ask it for the machine's addresses.
const FAMILIES_OF_INSTALLERS: &[libc::c_int] =
    &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// What the library calls the one program that it is asked for.
const NAME: &str = "filter";
/// Calls of the x32 interface, which reaches the same calls under other numbers, have this bit.
const X32_BIT: u32 = 0x4000_0000;

impl Machine {
    /// Every machine that there are filters for.
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// Its name, as `uname -m` gives it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }
}

/// The filter for a machine, as the kernel takes it: an array of `struct sock_filter`. Larger
/// pieces of shared memory without a file than `shared_bytes_max` are refused.
#[must_use]
pub fn filter_program(
    machine: Machine,
    network: Network,
    shared_bytes_max: Option<u64>,
) -> Vec<u8> {
    let is_x86_64 = machine == Machine::X86_64;
    let calls = |always: &'static [&str], there: &'static [&str]| {
        always.iter().chain(there.iter().filter(move |_| is_x86_64)).map(|call| refuse(call))
    };

    let absent = calls(ABSENT, ABSENT_ON_X86_64).collect();
    let mut refused: Vec<Value> = calls(REFUSED, REFUSED_ON_X86_64).collect();
    refused.extend(conditional_rules(network, shared_bytes_max));

    let mut program = if is_x86_64 { refuse_x32() } else { BpfProgram::new() };
    program.extend(compile(machine, libc::ENOSYS, absent));
    // Its last step allows what no rule has met; in place of that, the next rules are asked.
    program.pop();
    program.extend(compile(machine, libc::EPERM, refused));

    program.iter().flat_map(instruction_bytes).collect()
}

/// What is refused by its arguments.
fn conditional_rules(network: Network, shared_bytes_max: Option<u64>) -> Vec<Value> {
    let mut rules: Vec<Value> = Vec::new();
    let mut refuse_when = |call: &str, conditions: Value| {
        rules.push(json!({"syscall": call, "args": conditions}));
    };

    for flag in NAMESPACE_FLAGS {
        refuse_when("clone", json!([low_half(0, &json!({"masked_eq": flag}), flag)]));
    }
    for request in TERMINAL_INJECTION {
        refuse_when("ioctl", json!([low_half(1, &json!("eq"), request)]));
    }
    for command in UNOWNED_LOCKS {
        refuse_when("fcntl", json!([low_half(1, &json!("eq"), command)]));
    }

    // Limits of other processes, the first among them. Zero is the calling one.
    refuse_when("prlimit64", json!([low_half(0, &json!("ne"), 0)]));
    // With a sender that is made up.
    refuse_when("pidfd_send_signal", json!([whole(2, "ne", 0)]));

    let families = match network {
        Network::Denied => FAMILIES_OF_SCRIPTS,
        Network::Allowed => FAMILIES_OF_INSTALLERS,
    };
    let none_of_them: Vec<Value> =
        families.iter().map(|family| low_half(0, &json!("ne"), *family)).collect();
    for call in ["socket", "socketpair"] {
        refuse_when(call, json!(none_of_them));
    }

    if let Some(max) = shared_bytes_max {
        let is_shared = json!({"masked_eq": SHARED_WITHOUT_FILE});
        let is_shared = low_half(3, &is_shared, SHARED_WITHOUT_FILE);
        refuse_when("mmap", json!([is_shared, whole(1, "gt", max)]));
    }

    rules
}

fn refuse(call: &str) -> Value {
    json!({"syscall": call})
}

/// The kernel looks at the lower half of these arguments only, so the filter does the same.
fn low_half(argument: u8, operator: &Value, value: impl Into<i64>) -> Value {
    json!({"index": argument, "type": "dword", "op": operator, "val": value.into()})
}

/// The kernel looks at the whole of these arguments: pointers and lengths.
fn whole(argument: u8, operator: &str, value: u64) -> Value {
    json!({"index": argument, "type": "qword", "op": operator, "val": value})
}

fn compile(machine: Machine, error: libc::c_int, rules: Vec<Value>) -> BpfProgram {
    let architecture = match machine {
        Machine::X86_64 => TargetArch::x86_64,
        Machine::Aarch64 => TargetArch::aarch64,
    };
    let filter =
        json!({"mismatch_action": "allow", "match_action": {"errno": error}, "filter": rules});
    let filters = json!({NAME: filter}).to_string();

    let mut programs = seccompiler::compile_from_json(filters.as_bytes(), architecture)
        .expect("the rules are constants, which a test compiles");
    programs.remove(NAME).expect("the filter that was asked for")
}

/// What the library has no words for: all numbers of the x32 interface. Kernels before 5.4 took
/// some of its calls without the bit, too.
fn refuse_x32() -> BpfProgram {
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
    let step = |code: u32, k: u32, jt: u8, jf: u8| {
        let code = u16::try_from(code).expect("codes of instructions are small");
        sock_filter { code, jt, jf, k }
    };

    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let at_least = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
    vec![
        step(load, 0, 0, 0),
        step(at_least, X32_BIT, 2, 0),
        step(at_least, 512, 0, 2),
        step(at_least, 548, 1, 0),
        step(libc::BPF_RET | libc::BPF_K, refused, 0, 0),
    ]
}

/// Both machines have the least significant byte first.
fn instruction_bytes(instruction: &sock_filter) -> [u8; 8] {
    let code = instruction.code.to_le_bytes();
    let value = instruction.k.to_le_bytes();
    [code[0], code[1], instruction.jt, instruction.jf, value[0], value[1], value[2], value[3]]
}

#[cfg(test)]
mod tests;
