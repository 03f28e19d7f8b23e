//! Resolves the names of owners that operators write. `token:toolbus-keys/ci` is the key that has
//! this name now; a later key with the name does not get what this key is given.

use toolbus_store::{Error, LazyStore};
use toolbus_tools::Principal;
use toolbus_tools::scope::Proof;
use toolbus_tools::visitors::Visitors;
use toolbus_wire::name::AgentName;

use super::clients;
use super::keys::{KEY_ISSUER, Keys};

/// Returns a principal with the id of the key, or of the client of this agent, that has its name
/// now. Returns any other principal, or one that has an id, unchanged. `None`: no key or client has
/// the name.
///
/// # Errors
/// When the state cannot be read.
pub async fn current_owner(
    store: &LazyStore,
    agent: &AgentName,
    named: Principal,
) -> Result<Option<Principal>, Error> {
    let is_of_keys = match &named.proof {
        Proof::Token { issuer, id: None } => **issuer == *KEY_ISSUER,
        _ => return Ok(Some(named)),
    };
    if is_of_keys {
        return Keys::new(store.clone(), None).principal_of(&named.name).await;
    }
    if Visitors::is_client(&named) {
        return clients::current_client(store, agent, named).await;
    }
    Ok(Some(named))
}
