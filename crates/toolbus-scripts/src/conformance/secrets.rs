//! What a script must not come to know.

use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;

use rustix::io::{FdFlags, fcntl_setfd};
use toolbus_wire::envelope::new_id;

use super::host;
use super::stage::Stage;

/// Three secrets: in the service's environment, in a file that everybody on this machine may read,
/// and in a file that the service has open. A script that looks everywhere finds none.
pub(super) async fn planted_secrets_are_found_nowhere(stage: Stage) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
    let readable = new_id();
    let open = new_id();
    let path = folder.path().join("secret");

    fs::write(&path, &readable).expect("written");

    let held = tempfile::tempfile().expect("a file");
    std::io::Write::write_all(&mut &held, open.as_bytes()).expect("written");

    // As a careless parent leaves it.
    fcntl_setfd(held.as_fd(), FdFlags::empty()).expect("a flag");

    // Backwards, so that what the script is told is not what it looks for.
    let secrets = [host::secret(), readable, open];
    let needles: Vec<String> = secrets.iter().map(|text| text.chars().rev().collect()).collect();

    let source = r"
import os, sys
needles = [text[::-1].encode() for text in NEEDLES]
seen = 0
def look(path):
    global seen
    try:
        with open(path, 'rb', buffering=0) as file:
            content = file.read(1 << 20)
    except (OSError, ValueError): return
    seen += 1
    for number, needle in enumerate(needles):
        if needle in content: print('FOUND', number, path)
look('PLACE')
for place in os.listdir('/proc'):
    for file in ('environ', 'cmdline', 'maps', 'mountinfo', 'comm', 'root/PLACE', 'cwd/PLACE'):
        look(f'/proc/{place}/{file}')
    for kind in ('fd', 'map_files'):
        try: files = os.listdir(f'/proc/{place}/{kind}')
        except OSError: continue
        for file in files:
            # A pipe would be waited for.
            if os.path.isfile(f'/proc/{place}/{kind}/{file}'): look(f'/proc/{place}/{kind}/{file}')
skipped = {'/proc', '/sys', '/usr', '/lib', '/lib64', '/bin', '/sbin'} | set(sys.path)
for folder, folders, files in os.walk('/'):
    folders[:] = [name for name in folders if os.path.join(folder, name) not in skipped]
    for file in files:
        if os.path.isfile(os.path.join(folder, file)): look(os.path.join(folder, file))
print(seen > 3, *[text for text in os.environ.values() if text.encode() in needles])
";

    let source = source
        .replace("NEEDLES", &format!("{needles:?}"))
        .replace("PLACE", &path.display().to_string());

    stage.check(&source, "True\n", 0).await;
}

pub(super) async fn other_processes_cannot_be_looked_into(stage: Stage) {
    let source = r"
own = {str(os.getpid()), 'self', 'thread-self'}
others = [name for name in os.listdir('/proc') if name.isdigit() and name not in own]
print('only the first process is there', 'refused' if others == ['1'] else others)
for file in ('environ', 'mem', 'maps', 'smaps', 'cwd', 'root', 'exe', 'fd', 'fd/0', 'fd/1', 'fd/3', 'fdinfo',
             'map_files', 'io', 'syscall', 'stack', 'auxv', 'ns/net'):
    path = '/proc/1/' + file
    if file in ('fd', 'fdinfo', 'map_files'): deny(path, lambda: unless_empty(os.listdir(path)))
    elif file in ('cwd', 'root', 'exe', 'ns/net'): deny(path, lambda: os.readlink(path))
    elif file == 'environ': deny(path, lambda: unless_empty(open(path, 'rb').read().strip(b'\0')))
    elif file == 'mem': deny(path, lambda: open(path, 'rb+', buffering=0))
    # Some kernels are built without this one.
    elif file == 'stack': attempt(path, lambda: open(path, 'rb').read(64))
    else: deny(path, lambda: open(path, 'rb').read(64))
";

    stage.attack(18, source).await;
}

pub(super) async fn no_credentials_of_a_cluster_are_there(stage: Stage) {
    let source = r"
for path in ('/var/run/secrets', '/run/secrets', '/var/run/secrets/kubernetes.io/serviceaccount/token',
             '/root/.kube/config', '/etc/kubernetes', '/var/lib/kubelet'):
    attempt(path, lambda: os.listdir(path) if os.path.isdir(path) else open(path).read())
NAMES = {'serviceaccount', 'token', 'kubeconfig', '.kube'}
def named(place):
    for folder, folders, files in os.walk(place):
        if folder == '/': folders[:] = set(folders) - {'proc', 'sys', 'usr'}
        # Modules of the interpreter may be called so; it may be anywhere.
        if (folder + '/').startswith(sys.prefix + '/') and sys.prefix != '/': folders.clear()
        else: yield from (os.path.join(folder, name) for name in NAMES & {*folders, *files})
os.makedirs('a/b/c/serviceaccount')
print('the search', 'refused' if list(named('.')) == ['./a/b/c/serviceaccount'] else list(named('.')))
os.removedirs('a/b/c/serviceaccount')
print('tokens', list(named('/')) or 'refused')
own = {'PATH', 'HOME', 'TMPDIR', 'LANG', 'USER', 'PWD', 'PYTHONDONTWRITEBYTECODE', 'MALLOC_ARENA_MAX',
       'OPENBLAS_NUM_THREADS', 'ROCKBOT_INPUT'}
print('variables', set(os.environ) - own or 'refused')
";

    stage.attack(9, source).await;
}

pub(super) async fn descriptors_of_the_service_are_not_inherited(stage: Stage) {
    let held = tempfile::tempfile().expect("a file");
    fcntl_setfd(held.as_fd(), FdFlags::empty()).expect("a flag");
    let source = r"
for number in range(3, 1024): attempt(f'descriptor {number}', lambda: os.fstat(number))
kinds = [os.readlink(f'/proc/self/fd/{number}').split(':')[0] for number in range(3)]
print('what is open', 'refused' if set(kinds) <= {'pipe', 'socket', '/dev/null', 'null'} else kinds)
";
    stage.attack(1022, source).await;
}
