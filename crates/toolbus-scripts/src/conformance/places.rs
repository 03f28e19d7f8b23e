//! What a script must not read, write or leave behind.

use std::fs;

use toolbus_wire::message::script::ScriptReason;

use super::host;
use super::stage::{Stage, assert_ended_for};

pub(super) async fn files_of_the_host_cannot_be_read(stage: Stage) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("secret"), "a secret").expect("written");
    let source = r"
def listed(path):
    # Folders above the interpreter exist, with nothing else in them.
    entries = (os.path.join(path, name) for name in os.listdir(path))
    found = [entry for entry in entries if not (sys.prefix + '/').startswith(entry + '/')]
    return found or os.stat('/nowhere')
for path in ('PLACE', '/root', '/home', '/etc/kubernetes', '/var/lib/kubelet', '/var/lib/containerd',
             '/proc/1/root/root'):
    attempt('list ' + path, lambda: listed(path))
deny('list /proc/1/cwd', lambda: os.listdir('/proc/1/cwd'))
deny('read /proc/1/root/etc/shadow', lambda: open('/proc/1/root/etc/shadow'))
for path in ('PLACE/secret', '/etc/shadow', '/root/.bashrc', '/proc/kcore', '/dev/sda',
             '/dev/vda', '/dev/mem', '/dev/kmsg', '/dev/fuse', '/sys/kernel/security/lsm', '/proc/kallsyms'):
    # Zeros where there should be addresses are nothing, too.
    attempt('read ' + path, lambda: open(path, 'rb').read(16).strip(b'0 ATatdDrRbBVvwW\t') or os.stat('/nowhere'))
";

    stage.attack(20, &source.replace("PLACE", &folder.path().display().to_string())).await;
}

pub(super) async fn nothing_outside_the_work_folder_can_be_written(stage: Stage) {
    let mark = host::unique_mark();
    let source = r"
for folder in ('', '/usr', '/usr/lib', '/usr/local/lib', '/etc', '/bin', '/dev', '/var', '/var/tmp', '/run', '/root',
               '/home', '/opt', '/proc', '/sys', '/sys/fs/cgroup', '/packages', sys.prefix, os.path.dirname(os.__file__)):
    # What the kernel shows there takes no new names, and answers as if there was no such place.
    check = deny if os.path.isdir(folder or '/') and folder not in ('/proc', '/sys', '/sys/fs/cgroup') else attempt
    check('write ' + folder, lambda: open(folder + '/MARK', 'w').write('x'))
    check('make a folder ' + folder, lambda: os.mkdir(folder + '/MARK'))
for path in ('/etc/passwd', '/etc/hosts', '/etc/resolv.conf', os.__file__, sys.executable):
    check = deny if os.path.exists(path) else attempt
    check('append to ' + path, lambda: open(path, 'a').write('x'))
    attempt('remove ' + path, lambda: os.unlink(path))
    check('change ' + path, lambda: os.chmod(path, 0o777))
open('../' + os.path.basename(os.getcwd()) + '/inside', 'w').write('x')
";

    stage.attack(53, &source.replace("MARK", &mark)).await;

    for folder in
        ["/", "/usr", "/usr/lib", "/etc", "/bin", "/dev", "/var", "/run", "/root", "/home"]
    {
        let written = std::path::Path::new(folder).join(&mark);
        assert!(!fs::exists(&written).expect("checked"), "{} is there", written.display());
    }
}

pub(super) async fn links_and_devices_lead_nowhere(stage: Stage) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("secret"), "a secret").expect("written");
    let source = r"
def through(link, target): os.symlink(target, link); return open(link).read()
attempt('symbolic link', lambda: through('link', 'PLACE/secret'))
attempt('symbolic link upwards', lambda: through('up', '../' * 12 + 'PLACE/secret'))
attempt('link through the first process', lambda: through('first', '/proc/1/root/PLACE/secret'))
attempt('hard link', lambda: os.link('/usr/bin/env', 'hard'))
attempt('hard link to a device', lambda: os.link('/dev/null', 'null'))
deny('block device', lambda: os.mknod('block', 0o60600, os.makedev(254, 0)))
deny('memory device', lambda: os.mknod('memory', 0o20600, os.makedev(1, 1)))
deny('null device', lambda: os.mknod('zero', 0o20600, os.makedev(1, 3)))
deny('chroot', lambda: os.chroot('.'))
attempt('another owner', lambda: os.chown('link', 0, 0, follow_symlinks=False))
os.mkfifo('fifo')
";

    let place = folder.path().display().to_string();

    stage.attack(10, &source.replace("PLACE", &place)).await;
    assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1);
}

/// Fills whatever takes a byte, with files of the largest size that one may have.
pub(super) async fn every_writable_place_is_small(stage: Stage) {
    let source = r"
import os
block, total = b'x' * (1 << 20), 0
def fill(path):
    global total
    try:
        with open(path, 'ab', buffering=0) as file:
            while True: total += file.write(block)
    except (OSError, ValueError): pass
for folder, folders, files in os.walk('/'):
    folders[:] = [name for name in folders if os.path.join(folder, name) not in ('/proc', '/sys', '/usr')]
    for number in range(4): fill(f'{folder}/fill{number}')
    for file in files:
        path = os.path.join(folder, file)
        if not os.path.islink(path) and os.path.isfile(path): fill(path)
print(total < 300 << 20)
try:
    with open('sparse', 'wb') as file: file.truncate(1 << 40)
    print('sparse')
except OSError: print(True)
";

    let response = stage.run(source).await;

    // Files are memory, so either may come first: the end of the places, or that of the memory.
    if response.exit_code == 0 {
        assert_eq!(response.output.as_deref(), Some("True\nTrue\n"), "{response:?}");
    } else {
        assert_ended_for(&response, &[ScriptReason::OutOfMemory]);
    }
}

/// Empty ones: they take memory of the kernel alone.
pub(super) async fn files_without_number_are_bounded(stage: Stage) {
    let source = "import os, tempfile\nplace, n = tempfile.gettempdir(), 0\nwhile True:\n    \
                  os.close(os.open(f'{place}/{n}', os.O_CREAT | os.O_WRONLY))\n    n += 1";
    let response = stage.run_for(source, 30).await;
    assert_ended_for(&response, &[ScriptReason::OutOfMemory]);
    assert_eq!(response.stderr.as_deref(), Some("Script killed: too many files"));
}

pub(super) async fn nothing_is_left_for_the_next_script(stage: Stage) {
    let mark = host::unique_mark();
    let leave = r"
import os
left = 0
for folder, _, _ in os.walk('/'):
    if folder.startswith(('/proc', '/sys')): continue
    try:
        with open(folder + '/MARK', 'w') as file: file.write('x')
        left += 1
    except OSError: pass
print(left > 1)
";

    stage.check(&leave.replace("MARK", &mark), "True\n", 0).await;

    let look = r"
import os
for folder, folders, files in os.walk('/'):
    if folder == '/': folders[:] = [name for name in folders if name not in ('proc', 'sys')]
    if 'MARK' in files: print('found in', folder)
";

    stage.check(&look.replace("MARK", &mark), "", 0).await;
}
