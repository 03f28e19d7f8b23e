use std::process::Command;

/// Makes a process deny inspection after its mappings were read, within one measurement.
const HIDES_LATE: &str = "
import builtins, os
read = builtins.open
def refuse(path, *options):
    if path.endswith('smaps_rollup'):
        raise PermissionError(path)
    return read(path, *options)
builtins.open = refuse
os.listdir = lambda folder: [str(os.getpid())]
watch = watch_limits([os.open('/', os.O_RDONLY)])
watch.begin({'memory_bytes': 1 << 62, 'inodes': 1 << 62, 'file_locks': 1 << 62})
print(watch.find_exceeded())
";

#[test]
fn a_process_that_hides_between_two_looks_is_over_the_limit() {
    let program = format!("{}{HIDES_LATE}", include_str!("../limits.py"));
    let output = Command::new("python3").args(["-I", "-c", &program]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "out_of_memory\n", "{output:?}");
}
