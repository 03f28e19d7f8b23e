//! A gate that has no policy: it keeps its place in the order.

use super::{Gate, Passage, Verdict};

/// Lets every call pass.
pub struct Open(pub &'static str);

impl Gate for Open {
    fn name(&self) -> &'static str {
        self.0
    }

    fn check<'a>(&'a self, _passage: &'a mut Passage<'_>) -> Verdict<'a> {
        Verdict::Now(Ok(()))
    }
}
