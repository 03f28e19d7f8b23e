//! Files that scripts are given and leave.

toolbus_scripts::file_tests!(crate::support::sandbox().await);
