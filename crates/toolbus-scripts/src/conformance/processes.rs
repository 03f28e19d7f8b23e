//! What a script must not outlive, hold up or kill.

use std::process::{Child, Command};

use super::host;
use super::stage::{Stage, script};

pub(super) async fn survivors_do_not_survive(stage: Stage) {
    let mark = host::unique_mark();
    let source = r"
import os, subprocess, time
program = ['/bin/sh', '-c', 'trap : HUP INT TERM; sleep 300; : MARK']
subprocess.Popen(program, start_new_session=True, stdin=-3, stdout=-3, stderr=-3)
if not os.fork():
    os.setsid()
    if not os.fork(): os.execv(program[0], program)
    os._exit(0)
os.wait()
time.sleep(1)
print('left behind')
";

    let request = script(&source.replace("MARK", &mark));
    let response = stage.watch(request, &mark, |found| found.len() >= 2).await;

    assert_eq!(response.output.as_deref(), Some("left behind\n"), "{response:?}");
    stage.assert_no_process(&mark);
}

pub(super) async fn a_grandchild_that_holds_the_output_does_not_extend_a_run(stage: Stage) {
    let mark = host::unique_mark();
    let source = "import subprocess\nsubprocess.Popen(['/bin/sh', '-c', 'sleep 300; : MARK'], start_new_session=True)\nprint('done')";
    let response = stage.run(&source.replace("MARK", &mark)).await;
    assert_eq!((response.output.as_deref(), response.exit_code), (Some("done\n"), 0));
    assert!(response.elapsed_ms < 5000, "{response:?}");
    stage.assert_no_process(&mark);
}

pub(super) async fn killing_everything_kills_only_the_script(stage: Stage) {
    let witness = Command::new("/bin/sleep").arg("300").spawn().expect("a witness");
    let mut witness = Witness(witness);

    for source in [
        "import os\nos.kill(0, 9)",
        "import os, subprocess\nchild = subprocess.Popen(['sleep', '99'], start_new_session=True)\n\
         os.kill(-1, 9)\nif child.wait() == -9: os.kill(os.getpid(), 9)",
        "import os\nfor pid in range(1, 400):\n    try: os.kill(pid, 9)\n    except ProcessLookupError: pass",
        "import os\nos.killpg(os.getpgrp(), 9)",
    ] {
        let response = stage.run(source).await;
        assert_eq!(response.signal, Some(9), "{source}\n{response:?}");
    }

    assert!(witness.0.try_wait().expect("asked").is_none(), "the witness was killed");
    stage.check("print('and the next one runs')", "and the next one runs\n", 0).await;
}

/// A process that a script might reach.
struct Witness(Child);

impl Drop for Witness {
    fn drop(&mut self) {
        // Fails only when somebody else has killed it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) async fn the_parent_cannot_be_killed(stage: Stage) {
    let source = "import os, signal, time\nfor number in sorted(set(signal.Signals)):\n    \
                  try: os.kill(1, number)\n    except PermissionError: pass\ntime.sleep(0.3)\nprint(os.getppid())\nos._exit(7)";
    stage.check(source, "1\n", 7).await;
}

/// What watches a script from inside must go on as it began: with the limits that it has, and not
/// ended by a signal that looks as if it came from outside.
pub(super) async fn the_first_process_cannot_be_hindered(stage: Stage) {
    let source = r"
import ctypes, fcntl, platform, resource, signal, struct, time
for name in ('NOFILE', 'CPU', 'AS', 'FSIZE', 'NPROC', 'STACK', 'SIGPENDING'):
    for value in (0, 5):
        deny(f'{name} of {value}', lambda: resource.prlimit(1, getattr(resource, 'RLIMIT_' + name), (value, value)))
libc = ctypes.CDLL(None, use_errno=True)
queue, to_thread = (129, 297) if platform.machine() == 'x86_64' else (138, 240)
def send(number, *arguments):
    if libc.syscall(number, *arguments) < 0: raise OSError(ctypes.get_errno(), 'refused')
# With what only the kernel says of a sender outside of this namespace: no number.
def information(what): return struct.pack('iiiiII104x', what, 0, -1, 0, 0, os.getuid())
first = os.pidfd_open(1)
for what in (signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1):
    deny(f'queue {what!r}', lambda: send(queue, 1, int(what), information(what)))
    deny(f'queue {what!r} for a thread', lambda: send(to_thread, 1, 1, int(what), information(what)))
    deny(f'queue {what!r} by a descriptor', lambda: send(424, first, int(what), information(what), 0))
# The kernel itself sends this one, and names no sender.
reading, writing = os.pipe()
fcntl.fcntl(reading, fcntl.F_SETOWN, 1)
fcntl.fcntl(reading, fcntl.F_SETSIG, signal.SIGTERM)
fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
os.write(writing, b'x')
signal.pidfd_send_signal(first, 0)
time.sleep(0.5)
print('the end of the first process', 'refused' if os.getppid() == 1 else 'reached')
";

    stage.attack(24, source).await;
}

/// Of the kernel's ways into another process, on the first process and on the script's own child.
pub(super) async fn other_processes_cannot_be_traced(stage: Stage) {
    let source = r"
import ctypes, platform, time
libc = ctypes.CDLL(None, use_errno=True)
intel = platform.machine() == 'x86_64'
calls = dict(ptrace=101, process_vm_readv=310, process_vm_writev=311, kcmp=312, process_madvise=440, pidfd_getfd=438,
    move_pages=279) if intel else dict(ptrace=117, process_vm_readv=270, process_vm_writev=271, kcmp=272,
    process_madvise=440, pidfd_getfd=438, move_pages=239)
child = os.fork()
if not child: time.sleep(9); os._exit(0)
def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0: raise OSError(ctypes.get_errno(), 'refused')
for who in (1, child):
    for name, number in calls.items():
        arguments = (16, who) if name == 'ptrace' else (who, 0)
        deny(f'{name} of {who}', lambda: call(number, *arguments, 0, 0, 0, 0))
os.kill(child, 9)
";

    stage.attack(14, source).await;
}
