//! Memory of this process, for tests of what hostile input may take. Each test has a process of its
//! own, so nothing else grows meanwhile.

/// Resident memory now, in bytes.
///
/// # Panics
/// If `/proc/self/status` has no such line.
#[must_use]
pub fn resident_bytes() -> u64 {
    read("VmRSS:")
}

/// Peak resident memory, in bytes.
///
/// # Panics
/// If `/proc/self/status` has no such line.
#[must_use]
pub fn peak_bytes() -> u64 {
    read("VmHWM:")
}

fn read(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with(field)).expect("a line");
    let number = line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
    number.expect("a number") << 10
}
