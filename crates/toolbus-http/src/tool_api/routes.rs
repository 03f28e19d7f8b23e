//! The addresses of the interface, by what they are about.

pub(crate) mod execute;
pub(crate) mod health;
pub(crate) mod jobs;
pub(crate) mod keys;
pub(crate) mod retrieve;
pub(crate) mod servers;
pub(crate) mod tools;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Most entries of a page.
pub(crate) const PAGE_MAX: u64 = 100;
/// How many there are where nobody says.
pub(crate) const PAGE_DEFAULT: u64 = 20;

/// Where a page is among all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Pagination {
    /// How many were asked for.
    pub limit: u64,
    /// How many come before.
    pub offset: u64,
    /// How many there are.
    pub total: u64,
    /// Whether some come behind.
    pub has_more: bool,
}

impl Pagination {
    pub(crate) fn of(limit: u64, offset: u64, total: u64) -> Self {
        Self { limit, offset, total, has_more: offset.saturating_add(limit) < total }
    }
}
