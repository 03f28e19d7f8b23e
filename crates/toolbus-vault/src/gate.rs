//! The gate behind all others: finds the credentials of a call that may run.

use toolbus_policy::owner_text;
use toolbus_tools::CallError;
use toolbus_tools::gate::{Gate, Passage, Verdict};
use toolbus_tools::id::SERVER_PROVIDER_PREFIX;
use toolbus_wire::ErrorCode;

use crate::LazyVault;

/// Finds the credentials of calls in a vault. Where that fails the call is not made.
pub struct VaultGate(pub LazyVault);

impl Gate for VaultGate {
    fn name(&self) -> &'static str {
        "credentials"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        let id = passage.subject.id.as_str();
        let Some((provider, tool)) = id.split_once('/') else { return Verdict::Now(Ok(())) };
        // A server has its credentials from its connection, and calls bring it none.
        if provider.starts_with(SERVER_PROVIDER_PREFIX) || self.0.knows_of(provider) == Some(false)
        {
            return Verdict::Now(Ok(()));
        }
        let (provider, tool) = (provider.to_owned(), tool.to_owned());

        Verdict::Later(Box::pin(async move {
            let user = owner_text(&passage.call.scope.principal);
            match self.0.credentials(&provider, &tool, &user).await {
                Ok(credentials) => {
                    if !credentials.is_empty() {
                        // Who, which tool, when; no value.
                        tracing::info!(
                            provider,
                            tool,
                            user,
                            call_id = passage.call.id.as_str(),
                            credentials = credentials.names().collect::<Vec<_>>().join(", "),
                            "credentials were read for a call"
                        );
                    }
                    passage.credentials = credentials;
                    Ok(())
                }
                Err(error) => {
                    tracing::error!(provider, tool, %error, "cannot read credentials for a call");
                    let reason = error.reason();
                    let text = format!("the credentials of '{provider}' cannot be read: {reason}");
                    Err(CallError::new(ErrorCode::Denied, text))
                }
            }
        }))
    }
}
