//! Whom a script must not reach.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use super::host;
use super::stage::Stage;

/// Where somebody may listen besides the canaries: this machine, its neighbours, the cluster, the
/// metadata service of clouds, the internet.
const PLACES: &str = "'127.0.0.1:22', '127.0.0.1:5672', '127.0.0.1:6443', '10.96.0.1:443', '10.89.0.1:6443', \
    '10.89.0.1:10250', '10.244.0.1:10250', '169.254.169.254:80', '192.168.0.1:80', '1.1.1.1:53', '[::1]:22', \
    '[fd00:ec2::254]:80', '[2606:4700:4700::1111]:53'";

/// Connects to every place over TCP, and sends a datagram there.
const CALL: &str = r"
import socket
def call(kind, place):
    host, _, port = place.rpartition(':')
    family = socket.AF_INET6 if host.startswith('[') else socket.AF_INET
    plug = socket.socket(family, kind)
    plug.settimeout(1)
    plug.connect((host.strip('[]'), int(port)))
    plug.send(b'x')
def call_all():
    for place in (PLACES):
        deny('connect to ' + place, lambda: call(socket.SOCK_STREAM, place))
        deny('send to ' + place, lambda: call(socket.SOCK_DGRAM, place))
    for name in ('kubernetes.default.svc.cluster.local', 'example.org', 'localhost'):
        attempt('look up ' + name, lambda: socket.create_connection((name, 443), 1))
";

/// Runs a script that may use `call_all`, and sees that no canary was called.
async fn run_caller(stage: &Stage, attempts: usize, source: &str) {
    let canaries = stage.canaries().await;
    assert!(!canaries.addresses.is_empty(), "nobody listens");
    let listening: Vec<_> =
        canaries.addresses.iter().map(|address| format!("'{address}'")).collect();
    let places = format!("{}, {PLACES}", listening.join(", "));
    stage.attack(attempts, &format!("{}{source}", CALL.replace("PLACES", &places))).await;
    stage.settle().await;
    let callers = canaries.callers.await;
    assert!(callers.is_empty(), "somebody called: {callers:?}");
}

/// Also where a network policy needs a moment after the start to take hold.
pub(super) async fn nothing_is_reached_by_the_first_act_of_a_script(stage: Stage) {
    run_caller(&stage, 29, "call_all()").await;
}

pub(super) async fn nothing_is_reached_by_children_threads_and_raw_calls(stage: Stage) {
    let source = r"
import ctypes, multiprocessing, platform, subprocess, threading
thread = threading.Thread(target=call_all)
thread.start()
thread.join()
sys.stdout.flush()
child = multiprocessing.get_context('fork').Process(target=call_all)
child.start()
child.join()
for place in (PLACES):
    if '[' in place: continue
    program = 'exec 3<>/dev/tcp/' + place.replace(':', '/')
    def shell():
        if subprocess.run(['/bin/bash', '-c', program], stderr=subprocess.DEVNULL, timeout=5).returncode: raise OSError
    attempt('shell to ' + place, shell)
libc = ctypes.CDLL(None, use_errno=True)
number = 41 if platform.machine() == 'x86_64' else 198
for family in (2, 10, 16, 17, 40):
    def raw():
        if libc.syscall(number, family, 1, 0) < 0: raise OSError(ctypes.get_errno(), 'refused')
    deny(f'raw call, family {family}', raw)
";

    let source = source.replace("PLACES", PLACES);
    run_caller(&stage, 72, &source).await;
}

pub(super) async fn no_socket_but_a_local_one_can_be_had(stage: Stage) {
    let source = r"
import itertools, socket
kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_RDM, socket.SOCK_SEQPACKET)
for family, kind in itertools.product(range(2, 46), kinds):
    for name, make in (('socket', socket.socket), ('pair', socket.socketpair)):
        deny(f'{name} {family} {kind}', lambda: make(family, kind))
one, other = socket.socketpair()
one.send(b'x')
assert other.recv(1) == b'x'
";

    stage.attack(440, source).await;
}

/// A daemon's sockets: one with a file, one with a name only.
pub(super) async fn sockets_of_other_programs_are_out_of_reach(stage: Stage) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("daemon.sock");
    let with_file = UnixListener::bind(&path).expect("a listener");
    let name = host::unique_mark();
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let with_name = UnixListener::bind_addr(&address).expect("a listener");

    let source = r"
import socket
def connect(address): socket.socket(socket.AF_UNIX).connect(address)
for path in ('PLACE', '\0NAME', '/var/run/docker.sock', '/run/containerd/containerd.sock', '/run/dbus/system_bus_socket',
             '/run/systemd/notify', '/dev/log', '/run/toolbus-kube/containerd.sock', '/tmp/.X11-unix/X0', '\0/tmp/.X11-unix/X0'):
    attempt(repr(path), lambda: connect(path))
";

    let source = source.replace("PLACE", &path.display().to_string()).replace("NAME", &name);
    stage.attack(10, &source).await;

    for listener in [with_file, with_name] {
        listener.set_nonblocking(true).expect("a flag");
        assert!(listener.accept().is_err(), "somebody called");
    }
}
