//! What every runner holds a script with from inside.

pub mod seccomp;
