//! The first process of a sandbox: its program, and the reports that it sends.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{FromRawFd, OwnedFd};

use crate::c_string::c_string;
use crate::process::WaitStatus;

#[path = "init/fds.rs"]
pub(crate) mod fds;

/// Built from `init/main.rs`.
static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/init"));

/// Returns the program as a sealed file in memory, which can be executed without a file system.
pub(crate) fn program_file() -> io::Result<OwnedFd> {
    sealed_file(c"toolbus-init", PROGRAM)
}

/// Creates a sealed file in memory, whose content cannot be changed any more.
#[allow(unsafe_code)]
pub(crate) fn sealed_file(name: &std::ffi::CStr, content: &[u8]) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;

    // SAFETY: the name ends with a zero byte; the descriptor is checked and nobody else's.
    let descriptor = unsafe {
        let descriptor = libc::memfd_create(name.as_ptr(), flags);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(descriptor)
    };

    let mut file = File::from(descriptor);

    file.write_all(content)?;

    let seals = libc::F_SEAL_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;

    // SAFETY: the descriptor is open; the call takes no pointers.
    if unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&file), libc::F_ADD_SEALS, seals) } < 0
    {
        return Err(io::Error::last_os_error());
    }
    Ok(file.into())
}

/// The command line that makes the first process run `program`; `processes_max` of 0 sets no limit.
pub(crate) fn command_line(processes_max: u32, program: Vec<CString>) -> io::Result<Vec<CString>> {
    let mut arguments = vec![c_string("toolbus-init")?, c_string(processes_max.to_string())?];
    arguments.extend(program);
    Ok(arguments)
}

/// A report received over the control socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InitReport {
    /// The bootstrap: the script starts now.
    Started,
    /// The interpreter ended.
    Ended(WaitStatus),
    /// The interpreter could not be started, with the error number.
    NotStarted(i32),
}

/// Assembles reports from the bytes of the control socket. Nothing that a script controls can write
/// to it; an unknown report is an error all the same.
#[derive(Debug, Default)]
pub(crate) struct ReportReader {
    pending: Vec<u8>,
}

impl ReportReader {
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    pub(crate) fn next_report(&mut self) -> Option<Result<InitReport, u8>> {
        let kind = *self.pending.first()?;
        if kind == b'S' {
            self.pending.drain(..1);
            return Some(Ok(InitReport::Started));
        }

        if kind != b'E' && kind != b'X' {
            self.pending.clear();
            return Some(Err(kind));
        }

        let value: [u8; 4] = self.pending.get(1..5)?.try_into().ok()?;
        self.pending.drain(..5);

        let value = i32::from_le_bytes(value);
        let report = if kind == b'E' {
            InitReport::Ended(WaitStatus(value))
        } else {
            InitReport::NotStarted(value)
        };

        Some(Ok(report))
    }
}

#[cfg(test)]
mod tests;
