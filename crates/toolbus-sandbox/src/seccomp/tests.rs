//! The program, run on made-up calls by an interpreter of its few instructions.

use super::*;

/// What the kernel would answer, as the filter's return value.
fn verdict(program: &[u8], number: u32, arguments: [u64; 6]) -> u32 {
    let architecture: u32 = if cfg!(target_arch = "aarch64") { 0xC000_00B7 } else { 0xC000_003E };
    let mut data = [number.to_ne_bytes(), architecture.to_ne_bytes()].concat();
    data.extend_from_slice(&[0; 8]);
    arguments.iter().for_each(|argument| data.extend_from_slice(&argument.to_ne_bytes()));

    let word = |bytes: &[u8]| u32::from_ne_bytes(bytes.try_into().expect("four bytes"));
    let (mut at, mut register) = (0, 0_u32);

    loop {
        let instruction = &program[at * 8..at * 8 + 8];
        let code = u16::from_ne_bytes([instruction[0], instruction[1]]);
        let value = word(&instruction[4..8]);

        at += 1;

        let holds = match code {
            0x20 => {
                register = word(&data[value as usize..value as usize + 4]);
                continue;
            }
            0x54 => {
                register &= value;
                continue;
            }
            0x05 => {
                at += value as usize;
                continue;
            }
            0x06 => return value,
            0x15 => register == value,
            0x25 => register > value,
            0x35 => register >= value,
            0x45 => register & value != 0,
            other => panic!("an unknown instruction {other:#x}"),
        };

        at += usize::from(instruction[if holds { 2 } else { 3 }]);
    }
}

const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;
const REFUSED_CALL: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
const ABSENT_CALL: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

#[test]
fn calls_are_sorted_as_listed() {
    for network in [Network::Denied, Network::Allowed] {
        let program = filter_program(network, None).expect("a program");
        assert!(program.len() / 8 < 4096, "longer than the kernel takes");

        let judge = |number: libc::c_long, first: u64, second: u64| {
            verdict(&program, u32::try_from(number).expect("small"), [first, second, 0, 0, 0, 0])
        };
        for number in REFUSED {
            assert_eq!(judge(*number, 0, 0), REFUSED_CALL, "{number}");
        }

        for number in ABSENT {
            assert_eq!(judge(*number, 0, 0), ABSENT_CALL, "{number}");
        }

        for number in [libc::SYS_read, libc::SYS_execve, libc::SYS_futex, libc::SYS_wait4] {
            assert_eq!(judge(number, u64::MAX, u64::MAX), ALLOWED, "{number}");
        }

        for flag in NAMESPACE_FLAGS {
            let flags = (flag | libc::SIGCHLD | libc::CLONE_VM) as u64;
            assert_eq!(judge(libc::SYS_clone, flags, 0), REFUSED_CALL, "{flag:#x}");
        }

        let threads = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_THREAD | libc::CLONE_SETTLS;
        assert_eq!(judge(libc::SYS_clone, threads as u64, 0), ALLOWED);

        // The kernel looks at the lower half only.
        assert_eq!(judge(libc::SYS_ioctl, 0, libc::TIOCSTI | 1 << 40), REFUSED_CALL);
        assert_eq!(judge(libc::SYS_ioctl, 0, libc::TIOCGWINSZ), ALLOWED);

        let lock = |command: libc::c_int| judge(libc::SYS_fcntl, 3, command as u64);
        assert_eq!(UNOWNED_LOCKS.map(lock), [REFUSED_CALL; 2]);
        assert_eq!([libc::F_SETLK, libc::F_SETLKW, libc::F_OFD_GETLK].map(lock), [ALLOWED; 3]);

        // Of the calling process, and of another.
        let limits = |id| judge(libc::SYS_prlimit64, id, 0);
        assert_eq!((limits(0), limits(1)), (ALLOWED, REFUSED_CALL));

        for (information, answer) in [(0, ALLOWED), (1, REFUSED_CALL), (1 << 40, REFUSED_CALL)] {
            let number = u32::try_from(libc::SYS_pidfd_send_signal).expect("small");
            let arguments = [3, 15, information, 0, 0, 0];
            assert_eq!(verdict(&program, number, arguments), answer, "{information:#x}");
        }

        let socket = |family: libc::c_int| judge(libc::SYS_socket, family as u64, 1);
        let internet = if network == Network::Allowed { ALLOWED } else { REFUSED_CALL };
        assert_eq!((socket(libc::AF_UNIX), socket(libc::AF_INET)), (ALLOWED, internet));
        assert_eq!((socket(libc::AF_PACKET), socket(libc::AF_VSOCK)), (REFUSED_CALL, REFUSED_CALL));

        assert_eq!(judge(libc::SYS_socketpair, libc::AF_INET6 as u64, 1), internet);
    }
}

#[test]
fn large_pieces_of_shared_memory_can_be_refused() {
    const MAX: u64 = 4 << 20;
    let map = |max: Option<u64>, length: u64, flags: libc::c_int| {
        let program = filter_program(Network::Denied, max).expect("a program");
        let number = u32::try_from(libc::SYS_mmap).expect("small");
        verdict(&program, number, [0, length, 3, flags as u64, u64::MAX, 0])
    };

    let shared = [libc::MAP_SHARED, libc::MAP_SHARED_VALIDATE];
    for flags in shared.map(|kind| kind | libc::MAP_ANONYMOUS) {
        assert_eq!(map(Some(MAX), MAX, flags), ALLOWED);
        assert_eq!(map(Some(MAX), MAX + 1, flags), REFUSED_CALL);
        assert_eq!(map(Some(MAX), 1 << 40, flags | libc::MAP_POPULATE), REFUSED_CALL);
        assert_eq!(map(None, 1 << 40, flags), ALLOWED);
    }

    for flags in [libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::MAP_SHARED] {
        assert_eq!(map(Some(MAX), 1 << 40, flags), ALLOWED);
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_x32_interface_is_refused() {
    let program = filter_program(Network::Denied, None).expect("a program");
    for number in [0x4000_0000, 0x4000_0000 + 41, u32::MAX, 512, 520, 547] {
        assert_eq!(verdict(&program, number, [0; 6]), REFUSED_CALL, "{number:#x}");
    }
    assert_eq!(verdict(&program, 511, [0; 6]), ALLOWED);
    assert_eq!(verdict(&program, 548, [0; 6]), ALLOWED);
}

/// The filters of pods, which must do without this crate, answer every call as these do.
#[test]
fn the_filters_of_pods_are_the_same() {
    check_filter_of_pods("False", Network::Denied);
    check_filter_of_pods("True", Network::Allowed);
}

fn check_filter_of_pods(network: &str, same: Network) {
    const FILTER: &str = include_str!("../../../toolbus-pods/src/python/filter.py");

    // Hands over what it would have given to the kernel.
    let print = r"
import ctypes, sys
class Libc:
    def prctl(self, what, mode, program, *_):
        if what == 22:
            program = program._obj
            steps = ctypes.c_void_p.from_buffer(program, type(program).steps.offset).value
            sys.stdout.buffer.write(ctypes.string_at(steps, program.length * 8))
        return 0
ctypes.CDLL = lambda *_, **__: Libc()
";

    let output = std::process::Command::new("python3")
        .args(["-I", "-c", &format!("{FILTER}{print}deny_calls({network})\n")])
        .output()
        .expect("python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let theirs = output.stdout;
    let ours = filter_program(same, None).expect("a program");
    let first = NAMESPACE_FLAGS.map(|flag| flag.unsigned_abs().into());
    let first = first.into_iter().chain(0..64).chain([17, 0x003d_0f00, u64::MAX, 1 << 40]);
    let second = TERMINAL_INJECTION.into_iter().chain([0, libc::TIOCGWINSZ, u64::MAX]);
    let second = second.chain(libc::F_OFD_GETLK as u64 - 1..=libc::F_OFD_SETLKW as u64 + 1);
    let third = [1, 1 << 40];

    // No rule looks at two arguments together.
    let arguments: Vec<_> = first
        .map(|one| [one, 0, 0])
        .chain(second.map(|two| [0, two, 0]))
        .chain(third.map(|three| [0, 0, three]))
        .collect();

    for number in (0..600).chain([0x4000_0000, 0x4000_0029, 0x4000_0208, u32::MAX]) {
        for [one, two, three] in &arguments {
            let call = [*one, *two, *three, 0, 0, 0];
            let answers = (verdict(&theirs, number, call), verdict(&ours, number, call));
            assert_eq!(answers.0, answers.1, "call {number}, {call:#x?}, {network}");
        }
    }
}
