//! Which calls are under way: none runs twice at a time, and only so many at all.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::Error;
use crate::ids::BatchId;

/// The calls that are under way in this process.
#[derive(Debug, Default, Clone)]
pub(crate) struct UnderWay(Arc<Mutex<HashSet<BatchId>>>);

/// A call that is under way, for as long as this lives.
pub(crate) struct Begun {
    under_way: UnderWay,
    id: BatchId,
}

impl UnderWay {
    /// Takes note of a call.
    pub(crate) fn begin(&self, id: &BatchId, max: usize) -> Result<Begun, Error> {
        let mut ids = self.0.lock();
        if ids.contains(id) {
            return Err(Error::UnderWay);
        }
        if ids.len() >= max {
            return Err(Error::Busy { max });
        }
        ids.insert(id.clone());
        Ok(Begun { under_way: self.clone(), id: id.clone() })
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.under_way.0.lock().remove(&self.id);
    }
}
