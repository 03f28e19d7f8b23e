//! Files that a chain sends piece by piece.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::{Value, json};
use toolbus_artifacts::{ArtifactWriter, Artifacts, Error, NewArtifact, media_type_of};
use toolbus_tools::Scope;

use crate::request::{Put, error_response};

/// Files that one chain sends at a time.
const OPEN_MAX: usize = 16;

/// The files that one chain is sending.
#[derive(Default)]
pub(crate) struct Uploads {
    open: Mutex<HashMap<String, ArtifactWriter>>,
}

/// Whose the artifacts are, and how they are kept.
pub(crate) struct UploadTarget<'a> {
    pub(crate) artifacts: &'a Artifacts,
    pub(crate) scope: &'a Scope,
    /// The call of the chain.
    pub(crate) call: &'a str,
}

impl Uploads {
    /// Takes a piece, and gives the response to the chain.
    pub(crate) async fn put(&self, put: Put, target: UploadTarget<'_>) -> Value {
        let Ok(bytes) = STANDARD.decode(&put.data) else {
            return error_response("invalid", "the data of a piece is not base64");
        };
        // Taken out while it is written to: the pieces of a file come one after another.
        let known = self.open.lock().remove(&put.upload);
        let mut writer = match known {
            Some(writer) => writer,
            None if self.open.lock().len() >= OPEN_MAX => {
                let text = format!("a chain sends {OPEN_MAX} files at a time");
                return error_response("busy", &text);
            }
            None => match target.begin(&put) {
                Ok(writer) => writer,
                Err(error) => return error_response("artifact", &error.to_string()),
            },
        };

        if let Err(error) = writer.write(bytes.into()).await {
            return error_response("artifact", &error.to_string());
        }
        if !put.last {
            self.open.lock().insert(put.upload, writer);
            return json!({});
        }
        match writer.finish().await {
            Ok(stored) => {
                target.scope.artifacts.add(&stored.reference);
                json!({"artifact": stored.reference.as_str(), "bytes": stored.bytes})
            }
            Err(error) => error_response("artifact", &error.to_string()),
        }
    }
}

impl UploadTarget<'_> {
    fn begin(&self, put: &Put) -> Result<ArtifactWriter, Error> {
        let media_type = match &put.media_type {
            Some(media_type) => media_type.as_str(),
            None => media_type_of(&put.name),
        };
        let new = NewArtifact::of(self.scope, media_type, crate::NAME, self.call);
        self.artifacts.create(new)
    }
}
