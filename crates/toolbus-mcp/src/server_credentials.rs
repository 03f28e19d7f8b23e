//! Where servers have the credentials from that their entries name by `${vault:NAME}`.

use std::fmt;
use std::sync::Arc;

use toolbus_tools::CredentialSource;

/// Where servers have the credentials from that their entries name by `${vault:NAME}`: they are
/// those of the provider `mcp:SERVER`. Clones are the same.
#[derive(Clone)]
pub struct ServerCredentials(pub Arc<dyn CredentialSource>);

impl fmt::Debug for ServerCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerCredentials")
    }
}

/// Two are equal that are the same.
impl PartialEq for ServerCredentials {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
