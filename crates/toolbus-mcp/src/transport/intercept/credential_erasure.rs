//! Erases credentials from a message of a server.

use rmcp::RoleClient;
use rmcp::model::{GetExtensions as _, JsonRpcMessage};
use rmcp::service::RxJsonRpcMessage;

use crate::transport;
use toolbus_tools::SecretFinder;

/// The members that hold the texts of a server. The rest of a message is the protocol's.
const MEMBERS: [&str; 3] = ["result", "error", "params"];

/// Puts `***` in the place of every credential. When the message is not valid after that, an answer
/// becomes an error, and nothing is left of a request.
pub(super) fn erase_credentials(
    mut message: RxJsonRpcMessage<RoleClient>,
    finder: &SecretFinder,
) -> Option<RxJsonRpcMessage<RoleClient>> {
    let (id, extensions) = match &mut message {
        JsonRpcMessage::Response(answer) => (Some(answer.id.clone()), None),
        JsonRpcMessage::Error(error) => (error.id.clone(), None),
        // They are never written, and say which call the request belongs to.
        JsonRpcMessage::Request(request) => {
            (None, Some(std::mem::take(request.request.extensions_mut())))
        }
        JsonRpcMessage::Notification(_) => (None, None),
    };

    let cleaned = serde_json::to_value(&message).and_then(|mut value| {
        for member in MEMBERS {
            if let Some(member) = value.get_mut(member) {
                finder.erase(member);
            }
        }
        serde_json::from_value::<RxJsonRpcMessage<RoleClient>>(value)
    });

    match cleaned {
        Ok(JsonRpcMessage::Request(mut request)) => {
            *request.request.extensions_mut() = extensions.unwrap_or_default();
            Some(JsonRpcMessage::Request(request))
        }
        Ok(cleaned) => Some(cleaned),
        Err(_) => id.map(|id| {
            JsonRpcMessage::error(transport::unusable_answer(transport::HOLDS_CREDENTIAL), Some(id))
        }),
    }
}
