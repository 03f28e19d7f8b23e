//! The audit log on both databases.

mod outages;
mod rows;
mod support;
