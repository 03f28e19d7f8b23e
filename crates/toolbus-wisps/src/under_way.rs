//! Which calls are under way: none runs twice at a time, and only so many at all.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::WispsConfig;
use crate::error::Error;
use crate::ids::BatchId;

/// The calls that are under way in this process, and whose they are.
#[derive(Debug, Default, Clone)]
pub(crate) struct UnderWay(Arc<Mutex<HashMap<BatchId, String>>>);

/// A call that is under way, for as long as this lives.
pub(crate) struct Begun {
    under_way: UnderWay,
    id: BatchId,
}

impl UnderWay {
    /// Takes note of a call.
    pub(crate) fn begin(
        &self,
        id: &BatchId,
        owner: &str,
        config: &WispsConfig,
    ) -> Result<Begun, Error> {
        let mut owners = self.0.lock();
        if owners.contains_key(id) {
            return Err(Error::UnderWay);
        }
        let of_owner = owners.values().filter(|other| *other == owner).count();
        for (count, max) in
            [(owners.len(), config.batches_max), (of_owner, config.owner_batches_max)]
        {
            if count >= max {
                return Err(Error::Busy { max });
            }
        }

        owners.insert(id.clone(), owner.to_owned());
        Ok(Begun { under_way: self.clone(), id: id.clone() })
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.under_way.0.lock().remove(&self.id);
    }
}
