//! The first process inside a sandbox: starts the script's interpreter, reaps, and tells the truth.
//!
//! It is a program of its own, without `std` and `libc`, so that it is a few kilobytes and starts
//! in a fraction of a millisecond. `build.rs` compiles it and `init.rs` embeds it.
//!
//! Why it exists: whoever waits for the script outside of its process namespace learns only what
//! the shell convention leaves, where `sys.exit(137)` and a kill by signal 9 look the same. As
//! process 1 it is the script's real parent, cannot be signalled from within, and is not dumpable,
//! so that the script can neither trace it nor write its memory: what it reports cannot be forged.
//!
//! Called as `init PROCESSES_MAX PROGRAM ARGUMENT…` with the descriptors of `fds` open. It sends
//! `E` and the wait status (four bytes, little-endian) when the program ends, or `X` and an error
//! number when it could not be started; then it reaps orphans until it is killed from outside.

#![no_std]
#![no_main]

use core::arch::{asm, naked_asm};
use core::ptr;

#[path = "fds.rs"]
mod fds;

#[cfg(target_arch = "x86_64")]
mod number {
    pub(crate) const READ: usize = 0;
    pub(crate) const WRITE: usize = 1;
    pub(crate) const RT_SIGPROCMASK: usize = 14;
    pub(crate) const CLONE: usize = 56;
    pub(crate) const EXECVE: usize = 59;
    pub(crate) const EXIT_GROUP: usize = 231;
    pub(crate) const WAIT4: usize = 61;
    pub(crate) const SETSID: usize = 112;
    pub(crate) const PRCTL: usize = 157;
    pub(crate) const DUP3: usize = 292;
    pub(crate) const PRLIMIT64: usize = 302;
    pub(crate) const CLOSE_RANGE: usize = 436;
}

#[cfg(target_arch = "aarch64")]
mod number {
    pub(crate) const READ: usize = 63;
    pub(crate) const WRITE: usize = 64;
    pub(crate) const RT_SIGPROCMASK: usize = 135;
    pub(crate) const CLONE: usize = 220;
    pub(crate) const EXECVE: usize = 221;
    pub(crate) const EXIT_GROUP: usize = 94;
    pub(crate) const WAIT4: usize = 260;
    pub(crate) const SETSID: usize = 157;
    pub(crate) const PRCTL: usize = 167;
    pub(crate) const DUP3: usize = 24;
    pub(crate) const PRLIMIT64: usize = 261;
    pub(crate) const CLOSE_RANGE: usize = 436;
}

const EINTR: isize = -4;
const ECHILD: isize = -10;
const SIGCHLD: usize = 17;
const SIG_BLOCK: usize = 0;
const SIG_SETMASK: usize = 2;
const SIGNAL_SET_BYTES: usize = 8;
const PR_SET_DUMPABLE: usize = 4;
const PR_SET_CHILD_SUBREAPER: usize = 36;
const RLIMIT_NPROC: usize = 6;
const NOT_STARTED: usize = 127;

/// A system call with up to five arguments; the kernel's answer, negative for an error.
///
/// # Safety
/// The arguments must be what the kernel expects for `number`: pointers among them must be valid
/// for the reads and writes of that call.
#[cfg(target_arch = "x86_64")]
unsafe fn call(number: usize, arguments: [usize; 5]) -> isize {
    let answer;
    // SAFETY: the kernel clobbers only `rcx` and `r11` besides the answer; the rest is the
    // caller's promise.
    unsafe {
        asm!("syscall", inlateout("rax") number => answer,
            in("rdi") arguments[0], in("rsi") arguments[1], in("rdx") arguments[2],
            in("r10") arguments[3], in("r8") arguments[4],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    answer
}

/// As above.
///
/// # Safety
/// As above.
#[cfg(target_arch = "aarch64")]
unsafe fn call(number: usize, arguments: [usize; 5]) -> isize {
    let answer;
    // SAFETY: the kernel preserves all registers but the answer's; the rest is the caller's
    // promise.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") arguments[0] => answer,
            in("x1") arguments[1], in("x2") arguments[2], in("x3") arguments[3],
            in("x4") arguments[4], options(nostack));
    }
    answer
}

/// The entry point: hands the initial stack, where the kernel put the arguments, to `start`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn _start() -> ! {
    naked_asm!("mov rdi, rsp", "and rsp, -16", "call {start}", "ud2", start = sym start)
}

/// As above.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn _start() -> ! {
    naked_asm!("mov x0, sp", "bl {start}", "brk #1", start = sym start)
}

/// # Safety
/// `stack` is the initial stack of the process: the argument count, that many pointers to strings
/// and a null, then the environment and a null.
unsafe extern "C" fn start(stack: *const usize) -> ! {
    // SAFETY: the kernel lays the stack out so, and every pointer handed to a call below points
    // into it or to a live local.
    unsafe {
        let count = *stack;
        if count < 3 {
            exit_process(NOT_STARTED);
        }

        let arguments = stack.add(1);
        let environment = arguments.add(count + 1);

        call(number::PRCTL, [PR_SET_DUMPABLE, 0, 0, 0, 0]);
        // As process 1 it gets the orphans anyway; run without a namespace it has to ask.
        call(number::PRCTL, [PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0]);

        let every_signal = u64::MAX;
        let mut before = 0_u64;
        call(
            number::RT_SIGPROCMASK,
            [
                SIG_BLOCK,
                (&raw const every_signal).addr(),
                (&raw mut before).addr(),
                SIGNAL_SET_BYTES,
                0,
            ],
        );

        let child = call(number::CLONE, [SIGCHLD, 0, 0, 0, 0]);
        if child == 0 {
            call(
                number::RT_SIGPROCMASK,
                [SIG_SETMASK, (&raw const before).addr(), 0, SIGNAL_SET_BYTES, 0],
            );
            become_script(arguments, environment);
        }

        if child < 0 {
            send_report(b'X', -child as i32);
        }

        // The script's end of file must not wait for this process.
        call(number::CLOSE_RANGE, [fds::STDOUT as usize, u32::MAX as usize, 0, 0, 0]);
        wait_for(child)
    }
}

/// # Safety
/// Both point to arrays of strings that end with a null, as on the initial stack; `arguments`
/// holds at least three.
unsafe fn become_script(arguments: *const usize, environment: *const usize) -> ! {
    // SAFETY: the pointers are the caller's promise, the limit is a live local.
    unsafe {
        // A session of its own, so that `kill(0, …)` reaches nothing else.
        call(number::SETSID, [0; 5]);

        // Counted within the user namespace, which is why it is set only here.
        let processes_max = decimal(*arguments.add(1) as *const u8);
        if processes_max > 0 {
            let limit = [processes_max, processes_max];
            let error = call(number::PRLIMIT64, [0, RLIMIT_NPROC, (&raw const limit).addr(), 0, 0]);
            if error < 0 {
                send_report(b'X', -error as i32);
                exit_process(NOT_STARTED);
            }
        }

        call(number::DUP3, [fds::STDOUT as usize, 1, 0, 0, 0]);
        call(number::DUP3, [fds::STDERR as usize, 2, 0, 0, 0]);
        call(number::CLOSE_RANGE, [fds::STDOUT as usize, u32::MAX as usize, 0, 0, 0]);

        let program = *arguments.add(2);
        let error =
            call(number::EXECVE, [program, arguments.add(2).addr(), environment.addr(), 0, 0]);
        send_report(b'X', -error as i32);
        exit_process(NOT_STARTED)
    }
}

/// Reaps for ever, and reports the end of `child`.
fn wait_for(child: isize) -> ! {
    loop {
        let mut status = 0_i32;

        // SAFETY: `status` is a live local that the kernel writes four bytes to.
        let ended = unsafe { call(number::WAIT4, [usize::MAX, (&raw mut status).addr(), 0, 0, 0]) };

        if ended == child {
            send_report(b'E', status);
        } else if ended == ECHILD {
            // Nothing is left to reap: sleep until the one who reads the reports kills this
            // process, or is gone itself, which reads as the end of the file.
            let mut byte = 0_u8;
            // SAFETY: `byte` is a live local of one byte.
            let read = unsafe {
                call(number::READ, [fds::CONTROL as usize, (&raw mut byte).addr(), 1, 0, 0])
            };
            if read <= 0 && read != EINTR {
                exit_process(0);
            }
        }
    }
}

fn send_report(kind: u8, value: i32) {
    let value = value.to_le_bytes();
    let message = [kind, value[0], value[1], value[2], value[3]];
    // SAFETY: `message` is a live local of five bytes.
    unsafe { call(number::WRITE, [fds::CONTROL as usize, message.as_ptr().addr(), 5, 0, 0]) };
}

fn exit_process(code: usize) -> ! {
    loop {
        // SAFETY: the call takes no pointers and does not return.
        unsafe { call(number::EXIT_GROUP, [code, 0, 0, 0, 0]) };
    }
}

/// # Safety
/// `text` points to a string that ends with a zero byte.
unsafe fn decimal(mut text: *const u8) -> u64 {
    let mut value = 0_u64;
    // SAFETY: reading stops at the zero byte.
    unsafe {
        while (*text).is_ascii_digit() {
            value = value.wrapping_mul(10).wrapping_add(u64::from(*text - b'0'));
            text = text.add(1);
        }
    }
    value
}

/// The compiler may ask for this one when it clears memory.
///
/// # Safety
/// As C's `memset`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(start: *mut u8, byte: i32, count: usize) -> *mut u8 {
    for index in 0..count {
        // SAFETY: within the range that the caller promised; volatile, so that the loop is not
        // turned into a call of this very function.
        unsafe { ptr::write_volatile(start.add(index), byte as u8) };
    }
    start
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit_process(NOT_STARTED)
}
