//! The programs of both machines, run on made-up calls by an interpreter of their few instructions.

use super::*;

/// Numbers of some calls, on x86_64 and on aarch64.
const NUMBERS: [(&str, [u32; 2]); 16] = [
    ("read", [0, 63]),
    ("mmap", [9, 222]),
    ("ioctl", [16, 29]),
    ("socket", [41, 198]),
    ("socketpair", [53, 199]),
    ("clone", [56, 220]),
    ("execve", [59, 221]),
    ("shmget", [29, 194]),
    ("fcntl", [72, 25]),
    ("ptrace", [101, 117]),
    ("futex", [202, 98]),
    ("unshare", [272, 97]),
    ("prlimit64", [302, 261]),
    ("memfd_create", [319, 279]),
    ("pidfd_send_signal", [424, 424]),
    ("clone3", [435, 435]),
];

const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;
const REFUSED_CALL: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
const ABSENT_CALL: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

fn number(machine: Machine, call: &str) -> u32 {
    let found = NUMBERS.iter().find(|(name, _)| *name == call);
    found.unwrap_or_else(|| panic!("no number of {call}")).1
        [usize::from(machine != Machine::X86_64)]
}

fn architecture(machine: Machine) -> u32 {
    match machine {
        Machine::X86_64 => 0xC000_003E,
        Machine::Aarch64 => 0xC000_00B7,
    }
}

/// What the kernel would answer, as the filter's return value.
fn verdict(program: &[u8], architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let mut data = [number.to_le_bytes(), architecture.to_le_bytes()].concat();
    data.extend_from_slice(&[0; 8]);
    arguments.iter().for_each(|argument| data.extend_from_slice(&argument.to_le_bytes()));

    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let (mut at, mut register) = (0, 0_u32);

    loop {
        let instruction = &program[at * 8..at * 8 + 8];
        let code = u16::from_le_bytes([instruction[0], instruction[1]]);
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
            other => panic!("an unknown instruction {other:#x}"),
        };

        at += usize::from(instruction[if holds { 2 } else { 3 }]);
    }
}

/// A machine's filter, to be asked about calls.
struct Judge {
    machine: Machine,
    program: Vec<u8>,
}

impl Judge {
    fn new(machine: Machine, network: Network, shared_bytes_max: Option<u64>) -> Self {
        let program = filter_program(machine, network, shared_bytes_max);
        assert!(program.len() / 8 < 4096, "longer than the kernel takes");
        Self { machine, program }
    }

    fn number(&self, number: u32, arguments: [u64; 6]) -> u32 {
        verdict(&self.program, architecture(self.machine), number, arguments)
    }

    fn call(&self, call: &str, arguments: [u64; 4]) -> u32 {
        let [first, second, third, fourth] = arguments;
        self.number(number(self.machine, call), [first, second, third, fourth, u64::MAX, 0])
    }

    fn first(&self, call: &str, argument: u64) -> u32 {
        self.call(call, [argument, 0, 0, 0])
    }

    fn second(&self, call: &str, argument: u64) -> u32 {
        self.call(call, [0, argument, 0, 0])
    }
}

fn every_filter() -> impl Iterator<Item = (Judge, Network)> {
    let networks = [Network::Denied, Network::Allowed];
    networks.into_iter().flat_map(|network| {
        Machine::ALL.map(|machine| (Judge::new(machine, network, None), network))
    })
}

/// Each listed call has a number of its own, and nothing else is refused without arguments but
/// sockets of no family.
#[test]
fn every_listed_call_is_refused_and_no_other() {
    for (judge, _) in every_filter() {
        let verdicts: Vec<u32> = (0..512).map(|number| judge.number(number, [0; 6])).collect();
        let count = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count();
        let is_x86_64 = judge.machine == Machine::X86_64;
        let there = |calls: &[&str]| if is_x86_64 { calls.len() } else { 0 };

        assert_eq!(count(ABSENT_CALL), ABSENT.len() + there(ABSENT_ON_X86_64));
        assert_eq!(count(REFUSED_CALL), REFUSED.len() + there(REFUSED_ON_X86_64) + 2);
        assert_eq!(count(ALLOWED), 512 - count(ABSENT_CALL) - count(REFUSED_CALL));

        for call in ["clone3", "memfd_create", "shmget"] {
            assert_eq!(judge.first(call, 1), ABSENT_CALL, "{call}");
        }
        for call in ["ptrace", "unshare"] {
            assert_eq!(judge.first(call, 1), REFUSED_CALL, "{call}");
        }
        for call in ["read", "execve", "futex"] {
            assert_eq!(judge.call(call, [u64::MAX; 4]), ALLOWED, "{call}");
        }
    }
}

#[test]
fn arguments_decide_as_the_kernel_reads_them() {
    for (judge, network) in every_filter() {
        for flag in NAMESPACE_FLAGS {
            let flags = (flag | libc::SIGCHLD | libc::CLONE_VM) as u64;
            assert_eq!(judge.first("clone", flags), REFUSED_CALL, "{flag:#x}");
        }
        let threads = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_THREAD | libc::CLONE_SETTLS;
        assert_eq!(judge.first("clone", threads as u64), ALLOWED);

        // The kernel looks at the lower half only.
        assert_eq!(judge.second("ioctl", 0x5412 | 1 << 40), REFUSED_CALL);
        assert_eq!(judge.second("ioctl", 0x541C), REFUSED_CALL);
        assert_eq!(judge.second("ioctl", 0x5413), ALLOWED);

        let lock = |command: libc::c_int| judge.second("fcntl", command as u64);
        assert_eq!(UNOWNED_LOCKS.map(lock), [REFUSED_CALL; 2]);
        assert_eq!([libc::F_SETLK, libc::F_SETLKW, libc::F_OFD_GETLK].map(lock), [ALLOWED; 3]);

        // Of the calling process, and of another.
        let limits = |id| judge.first("prlimit64", id);
        assert_eq!((limits(0), limits(1)), (ALLOWED, REFUSED_CALL));

        for (information, answer) in [(0, ALLOWED), (1, REFUSED_CALL), (1 << 40, REFUSED_CALL)] {
            let arguments = [3, 15, information, 0];
            assert_eq!(judge.call("pidfd_send_signal", arguments), answer, "{information:#x}");
        }

        let internet = if network == Network::Allowed { ALLOWED } else { REFUSED_CALL };
        for call in ["socket", "socketpair"] {
            let family = |family: libc::c_int| judge.first(call, family as u64);
            assert_eq!((family(libc::AF_UNIX), family(libc::AF_INET)), (ALLOWED, internet));
            assert_eq!(family(libc::AF_PACKET), REFUSED_CALL);
            assert_eq!(family(libc::AF_VSOCK), REFUSED_CALL);
        }
    }
}

#[test]
fn large_pieces_of_shared_memory_can_be_refused() {
    const MAX: u64 = 4 << 20;
    for machine in Machine::ALL {
        let map = |max: Option<u64>, length: u64, flags: libc::c_int| {
            let judge = Judge::new(machine, Network::Denied, max);
            judge.call("mmap", [0, length, 3, flags as u64])
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
}

#[test]
fn the_x32_interface_is_refused() {
    for (judge, _) in every_filter().filter(|(judge, _)| judge.machine == Machine::X86_64) {
        for number in [0x4000_0000, 0x4000_0000 + 41, u32::MAX, 512, 520, 547] {
            assert_eq!(judge.number(number, [0; 6]), REFUSED_CALL, "{number:#x}");
        }
        assert_eq!(judge.number(511, [0; 6]), ALLOWED);
        assert_eq!(judge.number(548, [0; 6]), ALLOWED);
    }
}

#[test]
fn a_foreign_machine_ends_the_process() {
    for (judge, _) in every_filter() {
        for foreign in [0x4000_0003, 0xC000_00F3] {
            let answer = verdict(&judge.program, foreign, 0, [0; 6]);
            assert_eq!(answer, libc::SECCOMP_RET_KILL_PROCESS);
        }
    }
}
