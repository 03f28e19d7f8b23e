//! Kinds of tools: who runs a tool, we or the model's provider.

use serde_json::{Map, Value};

use crate::id::ID_BYTES_MAX;

/// Most providers that one tool has definitions for.
pub const PROVIDERS_MAX: usize = 16;
/// Longest definition for one provider, in bytes of JSON.
pub const PROVIDER_SPEC_BYTES_MAX: usize = 64 << 10;
/// Most types of calls that one tool answers.
pub const CALL_TYPES_MAX: usize = 64;

/// Who runs a tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum ToolKind {
    /// Its executor does, when it is called by its name.
    #[default]
    Local,
    /// The model's provider does, such as a web search of its own. It has no executor, and cannot
    /// be called here.
    ProviderHosted(ProviderSpecs),
    /// The model's provider defines it and we run it, such as a shell in a form that the model was
    /// trained on. Its executor handles calls of the types that it answers
    /// ([`Call::with_call_type`](crate::Call::with_call_type)); it cannot be called by its name.
    ProviderDefined {
        /// What providers are told of it.
        specs: ProviderSpecs,
        /// The types of calls that it answers, as the provider names them.
        call_types: Vec<String>,
    },
}

/// What each provider of models takes as the definition of a tool, in the order in which the
/// providers were named. It is sent as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProviderSpecs(Map<String, Value>);

impl ToolKind {
    /// What providers are told of the tool; `None` of one that is ours alone.
    #[must_use]
    pub fn specs(&self) -> Option<&ProviderSpecs> {
        match self {
            Self::Local => None,
            Self::ProviderHosted(specs) | Self::ProviderDefined { specs, .. } => Some(specs),
        }
    }

    /// Whether the tool is called by its name.
    #[must_use]
    pub fn is_local(&self) -> bool {
        *self == Self::Local
    }

    /// Whether the tool answers calls of this type.
    #[must_use]
    pub fn answers(&self, call_type: &str) -> bool {
        match self {
            Self::Local | Self::ProviderHosted(_) => false,
            Self::ProviderDefined { call_types, .. } => {
                call_types.iter().any(|known| known == call_type)
            }
        }
    }

    /// Says what is wrong with it, if anything.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if let Self::ProviderDefined { call_types, .. } = self {
            let is_type = |text: &String| (1..=ID_BYTES_MAX).contains(&text.len());
            if call_types.is_empty() || !call_types.iter().all(is_type) {
                return Err("it answers no types of calls, or one without a name");
            }
            if call_types.len() > CALL_TYPES_MAX {
                return Err("it answers too many types of calls");
            }
        }

        let Some(specs) = self.specs() else { return Ok(()) };
        if specs.0.len() > PROVIDERS_MAX {
            return Err("it has definitions for too many providers");
        }
        let is_too_long = |spec: &Value| spec.to_string().len() > PROVIDER_SPEC_BYTES_MAX;
        if specs.0.values().any(is_too_long) {
            return Err("its definition for a provider is too long");
        }
        Ok(())
    }
}

impl ProviderSpecs {
    /// The definition for this provider, if it has one.
    #[must_use]
    pub fn of(&self, provider: &str) -> Option<&Value> {
        self.0.get(provider)
    }

    /// The definition for the provider that was named first.
    #[must_use]
    pub fn first(&self) -> Option<&Value> {
        self.0.values().next()
    }

    /// Every definition, with its provider.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(provider, spec)| (provider.as_str(), spec))
    }
}

impl<P: Into<String>> FromIterator<(P, Value)> for ProviderSpecs {
    fn from_iter<I: IntoIterator<Item = (P, Value)>>(specs: I) -> Self {
        Self(specs.into_iter().map(|(provider, spec)| (provider.into(), spec)).collect())
    }
}
