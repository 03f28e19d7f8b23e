//! Programs that pages start and this machine may lack: small ones of the same names, before all
//! others in `PATH`. Each starts a part that was fetched, in the place of what the real one would
//! download or compile.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use toolbus_testkit::process::binary;
use toolbus_testkit::{mcp, pika};

use crate::lists::{self, Page};

/// Writes those that the page needs. `None` where a part is missing and may be.
pub(crate) fn write(folder: &Path, page: &Page) -> Option<()> {
    for program in lists::PROGRAMS.iter().filter(|program| program.pages.contains(&page.path)) {
        let mut text = program.text.to_owned();
        if text.contains("{time}") {
            text = text.replace("{time}", &mcp::time()?.command);
        }
        if text.contains("{pika}") {
            text = text.replace("{pika}", &pika::python()?.display().to_string());
        }
        if text.contains("{bin}") {
            let program = binary("tutorial-adder").unwrap();
            let bin = program.parent().unwrap().display().to_string();
            text = text.replace("{bin}", &bin);
        }
        let path = folder.join(program.name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    Some(())
}
