//! Files that scripts are given and leave, in the sandbox and without one.

mod sandboxed {
    toolbus_scripts::file_tests!(crate::support::sandbox().await);
}

mod bare {
    toolbus_scripts::file_tests!(Some(crate::bare::bare().await));
}
