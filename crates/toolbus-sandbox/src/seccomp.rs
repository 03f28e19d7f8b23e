//! The system calls that a sandboxed process is refused, as a filter program.
//!
//! A list of what is denied, not of what is allowed: lists of allowed calls have broken honest
//! scripts with every new libc. Denied is what opens namespaces and mounts, looks into other
//! processes, reaches parts of the kernel with a history of holes, holds memory that no limit of
//! ours sees, or makes sockets other than local ones.
//!
//! Invariants: a refused call fails with `EPERM`, or with `ENOSYS` where programs probe for the
//! call and fall back; no filter ever kills but for a foreign architecture, where numbers mean
//! other calls.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

/// Which sockets a program may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    /// Local (`AF_UNIX`) ones only: for scripts.
    Denied,
    /// Those of the internet, too: for installing packages.
    Allowed,
}

/// Calls that fail as if this kernel did not have them. `clone3` takes its flags by pointer, where
/// no filter can look; the C library falls back to `clone`. The others hold memory that belongs to
/// no process and no file system that is measured, or use up what all users of the machine share:
/// requests of asynchronous I/O and instances of inotify.
const ABSENT: &[libc::c_long] = &[
    libc::SYS_clone3,
    libc::SYS_io_setup,
    libc::SYS_inotify_init1,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_inotify_init,
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_shmget,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
];

/// Calls that are refused whatever their arguments.
const REFUSED: &[libc::c_long] = &[
    // Namespaces, mounts, the system itself.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // Signals whose sender can be made up.
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    // Memory that a pipe holds, and no process shows.
    libc::SYS_vmsplice,
    // Parts of the kernel that scripts have no business with.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_personality,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ustat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_sysfs,
];

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
const TERMINAL_INJECTION: [libc::c_ulong; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

const FAMILIES_OF_SCRIPTS: &[libc::c_int] = &[libc::AF_UNIX];
/// `AF_NETLINK` because resolvers ask it for the machine's addresses.
const FAMILIES_OF_INSTALLERS: &[libc::c_int] =
    &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Commands of `fcntl` for locks of open files, which have no owner, so that nobody can count whose
/// they are.
const UNOWNED_LOCKS: [libc::c_int; 2] = [libc::F_OFD_SETLK, libc::F_OFD_SETLKW];
/// Of a mapping that is shared and has no file; either kind of sharing has the first bit.
const SHARED_WITHOUT_FILE: u64 = (libc::MAP_SHARED | libc::MAP_ANONYMOUS) as u64;

/// The filter as the bytes that bubblewrap reads: an array of `struct sock_filter`. Larger pieces
/// of shared memory without a file than `shared_bytes_max` are refused.
pub(crate) fn filter_program(
    network: Network,
    shared_bytes_max: Option<u64>,
) -> Result<Vec<u8>, seccompiler::BackendError> {
    let mut rules = filter_rules(network)?;
    if let Some(max) = shared_bytes_max {
        let kind = SeccompCmpOp::MaskedEq(SHARED_WITHOUT_FILE);
        let is_shared = argument_condition(3, kind, SHARED_WITHOUT_FILE)?;
        let is_large = long_condition(1, SeccompCmpOp::Gt, max)?;
        rules.insert(libc::SYS_mmap, vec![new_rule(vec![is_shared, is_large])?]);
    }

    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM.unsigned_abs()),
        target_architecture(),
    )?;
    let mut program = filter_preamble();
    program.extend(BpfProgram::try_from(filter)?);
    Ok(program.iter().flat_map(instruction_bytes).collect())
}

fn filter_rules(
    network: Network,
) -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().map(|number| (*number, Vec::new())).collect();
    rules.insert(
        libc::SYS_clone,
        NAMESPACE_FLAGS
            .iter()
            .map(|flag| {
                let flag = u64::from(flag.unsigned_abs());
                new_rule(vec![argument_condition(0, SeccompCmpOp::MaskedEq(flag), flag)?])
            })
            .collect::<Result<_, _>>()?,
    );

    // Of other processes, the first among them. Zero is the calling one.
    let of_others = argument_condition(0, SeccompCmpOp::Ne, 0)?;
    rules.insert(libc::SYS_prlimit64, vec![new_rule(vec![of_others])?]);

    // With a sender that is made up, as above.
    let information = long_condition(2, SeccompCmpOp::Ne, 0)?;
    rules.insert(libc::SYS_pidfd_send_signal, vec![new_rule(vec![information])?]);

    rules.insert(
        libc::SYS_fcntl,
        UNOWNED_LOCKS
            .iter()
            .map(|command| {
                let command = u64::from(command.unsigned_abs());
                new_rule(vec![argument_condition(1, SeccompCmpOp::Eq, command)?])
            })
            .collect::<Result<_, _>>()?,
    );

    rules.insert(
        libc::SYS_ioctl,
        TERMINAL_INJECTION
            .iter()
            .map(|request| new_rule(vec![argument_condition(1, SeccompCmpOp::Eq, *request)?]))
            .collect::<Result<_, _>>()?,
    );

    let families = match network {
        Network::Denied => FAMILIES_OF_SCRIPTS,
        Network::Allowed => FAMILIES_OF_INSTALLERS,
    };
    let foreign_family = families
        .iter()
        .map(|family| argument_condition(0, SeccompCmpOp::Ne, u64::from(family.unsigned_abs())))
        .collect::<Result<Vec<_>, _>>()?;
    rules.insert(libc::SYS_socket, vec![new_rule(foreign_family.clone())?]);
    rules.insert(libc::SYS_socketpair, vec![new_rule(foreign_family)?]);

    Ok(rules)
}

fn new_rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(conditions)
}

/// The kernel looks at the lower half of these arguments only, so the filter does the same.
fn argument_condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

/// The kernel looks at the whole of these arguments: pointers and lengths.
fn long_condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operator, value)
}

/// What the filter library has no words for: numbers of the x32 interface, which reach the same
/// calls under other numbers, and the calls that answer `ENOSYS`. The library's own program, which
/// checks the architecture first, follows.
fn filter_preamble() -> BpfProgram {
    let refuse = bpf_statement(RETURN, libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs());
    let absent = bpf_statement(RETURN, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs());

    let mut program = vec![bpf_statement(LOAD_WORD, 0)];

    if cfg!(target_arch = "x86_64") {
        program.push(bpf_jump(JUMP_GREATER_EQUAL, X32_BIT, [0, 1]));
        program.push(refuse.clone());
        // Calls of the x32 interface that kernels before 5.4 took without the bit, too.
        program.push(bpf_jump(JUMP_GREATER_EQUAL, 512, [0, 2]));
        program.push(bpf_jump(JUMP_GREATER_EQUAL, 548, [1, 0]));
        program.push(refuse);
    }

    for number in ABSENT {
        let number = u32::try_from(*number).expect("call numbers are small and positive");
        program.push(bpf_jump(JUMP_EQUAL, number, [0, 1]));
        program.push(absent.clone());
    }

    program
}

const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP_GREATER_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const X32_BIT: u32 = 0x4000_0000;

fn bpf_statement(code: u16, value: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k: value }
}

/// `skip` is how many instructions are passed over when the comparison holds, and when not.
fn bpf_jump(code: u16, value: u32, skip: [u8; 2]) -> sock_filter {
    sock_filter { code, jt: skip[0], jf: skip[1], k: value }
}

fn instruction_bytes(instruction: &sock_filter) -> [u8; 8] {
    let code = instruction.code.to_ne_bytes();
    let value = instruction.k.to_ne_bytes();
    [code[0], code[1], instruction.jt, instruction.jf, value[0], value[1], value[2], value[3]]
}

const fn target_architecture() -> TargetArch {
    if cfg!(target_arch = "aarch64") { TargetArch::aarch64 } else { TargetArch::x86_64 }
}

#[cfg(test)]
mod tests;
