//! The models of a process: by name, and by what they are asked for.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::model::Model;
use crate::settings::Tier;

/// The models of a process. Clones are the same.
#[derive(Clone, Default)]
pub struct Models(Arc<Inner>);

#[derive(Default)]
struct Inner {
    endpoints: BTreeMap<String, Arc<dyn Model>>,
    tiers: BTreeMap<&'static str, Arc<dyn Model>>,
}

impl Models {
    /// One model for everything, such as a script in a test.
    #[must_use]
    pub fn single(model: Arc<dyn Model>) -> Self {
        let tiers = Tier::ALL.map(|tier| (tier, model.clone()));
        Self::new([(model.name().to_owned(), model)], tiers)
    }

    /// These models.
    #[must_use]
    pub fn new(
        endpoints: impl IntoIterator<Item = (String, Arc<dyn Model>)>,
        tiers: impl IntoIterator<Item = (Tier, Arc<dyn Model>)>,
    ) -> Self {
        let tiers = tiers.into_iter().map(|(tier, model)| (tier.as_str(), model));
        let (endpoints, tiers) = (endpoints.into_iter().collect(), tiers.collect());
        Self(Arc::new(Inner { endpoints, tiers }))
    }

    /// What answers for this tier; `None` where there are no models.
    #[must_use]
    pub fn tier(&self, tier: Tier) -> Option<Arc<dyn Model>> {
        self.0.tiers.get(tier.as_str()).cloned()
    }

    /// The model of this name in the settings, alone.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<dyn Model>> {
        self.0.endpoints.get(name).cloned()
    }

    /// The names of the models.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.endpoints.keys().map(String::as_str)
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
