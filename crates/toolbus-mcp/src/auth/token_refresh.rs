//! The refresh of a login's access token, by the refresh token that is stored with it.
//!
//! Only a person can log in: where the refresh token is not enough, the error says that a login is
//! needed, and the store keeps what the next login has to ask for.

use std::time::SystemTime;

use super::{Authorization, Error, IssuerKnowledge, Token, TokenNeed, discovery};
use crate::config::AuthorizationCode;

impl Authorization {
    /// Loads the token of an earlier login and refreshes it where needed. `None` when there was no
    /// login and the server was not asked yet whether that matters.
    pub(super) async fn load_or_refresh_token(
        &self,
        code: &AuthorizationCode,
        known: &mut IssuerKnowledge,
        need: &TokenNeed,
    ) -> Result<Option<Token>, Error> {
        let kept = self.store.read().await?.filter(|kept| kept.belongs_to(code));
        let token = kept.as_ref().and_then(|kept| Token::from_stored(kept.credentials.as_ref()?));

        let (Some(kept), Some(token)) = (kept, token) else {
            if let Some(challenge) = need.challenge() {
                self.store.record_challenge(challenge).await?;
            }
            return match need {
                TokenNeed::Missing => Ok(None),
                TokenNeed::Refused(..) => Err(self.needs_login(None)),
            };
        };

        if need.refused_token() != Some(&token.value) && token.is_usable() {
            return Ok(Some(token));
        }

        if let Some(scopes) = need.missing_scopes() {
            if scopes.iter().all(|scope| kept.asked_scopes.contains(scope)) {
                return Err(Error::Scope(scopes.join(" ")));
            }
            // Only a person can grant more.
            self.store.record_wanted_scopes(scopes).await?;
            return Err(self.needs_login(Some(scopes.join(" "))));
        }

        known.challenge = known.challenge.take().or_else(|| kept.challenge.clone());
        let mut manager = self.take_or_discover_manager(known).await?;
        manager.set_credential_store(self.store.clone());
        let client = kept.client_config(code);

        let refreshed = discovery::without_logs(async {
            // False when another authorization server has taken over: its predecessor's tokens are
            // not for it.
            if !manager.initialize_from_store().await? {
                return Err(rmcp::transport::AuthError::AuthorizationRequired);
            }
            manager.configure_client(client)?;
            manager.refresh_token().await
        });

        let refreshed = refreshed.await.map_err(|error| self.explain_error(error))?;
        known.manager = Some(manager);
        tracing::debug!(server = %self.server, "refreshed the access token");
        Ok(Some(Token::from_response(&refreshed, SystemTime::now())))
    }
}
