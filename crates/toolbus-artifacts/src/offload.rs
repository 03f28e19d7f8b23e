//! Outputs that are too large for their callers: stored, with a preview and a reference in their
//! place.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use toolbus_tools::call::Output;
use toolbus_tools::invoker::{Shape, ShapeContext};
use toolbus_tools::{ArtifactFile, ArtifactInfo, Door};
use toolbus_wire::json::RawJson;
use toolbus_wire::message::tool::{ContentBlock, ContentKind};

use crate::{Artifacts, Error, NewArtifact, media, preview};

/// Base64 characters that are decoded at a time: a whole number of groups of four.
const DECODED_CHARACTERS: usize = 1 << 20;
/// Runs and tools whose files are numbered at a time. Beyond, the oldest begin again, with numbers
/// that nobody had.
const NUMBERED_MAX: usize = 4096;
/// Longest name of a tool in the name of a file, in bytes.
const FILE_NAME_BYTES_MAX: usize = 64;

/// With or without padding, as servers write it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Stores what is too large for the callers of the doors that are set, and all their pictures and
/// sounds. Where it cannot be stored, the output stays as it is.
pub struct OffloadOutput {
    artifacts: Artifacts,
    /// Doors whose texts and values stay whole.
    whole_texts: Vec<Door>,
    numbers: Mutex<VecDeque<Numbering>>,
    numbers_begin: AtomicU64,
}

/// How far the files of one tool in one run are numbered.
struct Numbering {
    run: String,
    tool: String,
    next: u64,
}

impl OffloadOutput {
    /// Stores outputs among these artifacts.
    #[must_use]
    pub fn new(artifacts: Artifacts) -> Self {
        Self {
            artifacts,
            whole_texts: Vec::new(),
            numbers: Mutex::default(),
            numbers_begin: AtomicU64::new(0),
        }
    }

    /// The same, which leaves texts and values of these doors whole: another step has bounded them.
    #[must_use]
    pub fn without_texts_of(self, doors: &[Door]) -> Self {
        Self { whole_texts: doors.to_vec(), ..self }
    }

    async fn offload(&self, mut output: Output, of: ShapeContext<'_>) -> Output {
        // A step before has stored the text, and says of it what its caller reads.
        let is_text_stored = output.artifact.is_some();
        let notes = self.store_media(&mut output, of).await;

        let is_bounded = self.whole_texts.contains(&of.scope.door);
        let inline_bytes =
            if is_bounded { usize::MAX } else { self.artifacts.config().inline_bytes };
        if let Some(value) = output.structured.take_if(|value| value.text().len() > inline_bytes) {
            output.structured = Some(self.store_value(value, &mut output.artifact, of).await);
        }
        let is_large = output.content.as_ref().is_some_and(|text| text.len() > inline_bytes);
        if is_large && !is_text_stored {
            let text = output.content.take().unwrap_or_default();
            self.store_text(text, &mut output, of).await;
        }

        if !notes.is_empty() {
            let content = output.content.get_or_insert_default();
            if !content.is_empty() {
                content.push('\n');
            }
            content.push_str(&notes.join("\n"));
        }
        output
    }

    /// Stores the text, and leaves its beginning.
    async fn store_text(&self, text: String, output: &mut Output, of: ShapeContext<'_>) {
        let preview = preview::of_text(&text, self.artifacts.config().inline_bytes);
        let bytes = Bytes::from(text);
        match self.store(bytes.clone(), "text/plain; charset=utf-8", of).await {
            Ok(artifact) => {
                // The parts have the same text, and no more than that.
                output.blocks.retain(|block| block.kind != ContentKind::Text);
                output.content = Some(format!("{preview}\n{}", describe(&artifact)));
                output.artifact = Some(artifact);
            }
            Err(error) => {
                warn(&error, of);
                // It was a text, and nobody else has changed it.
                output.content = String::from_utf8(bytes.into()).ok();
            }
        }
    }

    /// Stores the value, and gives what stands in its place.
    async fn store_value(
        &self,
        value: RawJson,
        stored: &mut Option<ArtifactInfo>,
        of: ShapeContext<'_>,
    ) -> RawJson {
        let bytes = Bytes::copy_from_slice(value.text().as_bytes());
        match self.store(bytes, "application/json", of).await {
            Ok(artifact) => {
                let summary = preview::of_value(value.text(), &artifact.reference);
                *stored = Some(artifact);
                RawJson::of(&summary)
            }
            Err(error) => {
                warn(&error, of);
                value
            }
        }
    }

    /// Stores pictures, sounds and other files among the parts, and says of each where it is.
    async fn store_media(&self, output: &mut Output, of: ShapeContext<'_>) -> Vec<String> {
        let Output { content, blocks, files, .. } = output;
        let mut notes = Vec::new();
        for block in std::mem::take(blocks) {
            let stored = match (&block.data, &block.text) {
                (Some(data), _) => self.store_base64(data, &media_type_of(&block), of).await,
                (None, Some(text)) if is_unread_file(&block, content.as_deref()) => {
                    let bytes = Bytes::copy_from_slice(text.as_bytes());
                    self.store(bytes, &media_type_of(&block), of).await.map_err(Failure::from)
                }
                _ => {
                    notes.extend(note_of_link(&block));
                    blocks.push(block);
                    continue;
                }
            };

            match stored {
                Ok(artifact) => {
                    let path = self.file_path(&artifact.media_type, of);
                    notes.push(format!("[{path}: {}]", describe_shortly(&artifact)));
                    files.push(ArtifactFile { path, artifact });
                }
                Err(error) => {
                    warn(&error, of);
                    blocks.push(block);
                }
            }
        }
        notes
    }

    async fn store(
        &self,
        bytes: Bytes,
        media_type: &str,
        of: ShapeContext<'_>,
    ) -> Result<ArtifactInfo, Error> {
        let stored = self.artifacts.store(new_artifact(media_type, of), bytes).await?;
        of.scope.artifacts.add(&stored.reference);
        Ok(stored)
    }

    /// Stores what is written in base64, a piece at a time.
    async fn store_base64(
        &self,
        data: &str,
        media_type: &str,
        of: ShapeContext<'_>,
    ) -> Result<ArtifactInfo, Failure> {
        let mut writer = self.artifacts.create(new_artifact(media_type, of))?;
        for piece in data.as_bytes().chunks(DECODED_CHARACTERS) {
            let bytes = BASE64.decode(piece).map_err(|_| Failure::NotBase64)?;
            writer.write(bytes.into()).await?;
        }
        let stored = writer.finish().await?;
        of.scope.artifacts.add(&stored.reference);
        Ok(stored)
    }

    /// Where the next file of this tool is found: a name that no other file of the run has.
    fn file_path(&self, media_type: &str, of: ShapeContext<'_>) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let tool: String = of.tool.chars().map(plain).take(FILE_NAME_BYTES_MAX).collect();
        let run = of.scope.run.as_str();

        let mut numbers = self.numbers.lock();
        let known = numbers.iter().position(|known| known.run == run && known.tool == tool);
        let at = known.unwrap_or_else(|| {
            if numbers.len() == NUMBERED_MAX
                && let Some(oldest) = numbers.pop_front()
            {
                self.numbers_begin.fetch_max(oldest.next, Ordering::Relaxed);
            }
            let next = self.numbers_begin.load(Ordering::Relaxed);
            numbers.push_back(Numbering { run: run.to_owned(), tool: tool.clone(), next });
            numbers.len() - 1
        });
        let number = numbers[at].next;
        numbers[at].next += 1;
        format!("media/{tool}_{number}.{}", media::file_ending(media_type))
    }
}

impl Shape for OffloadOutput {
    fn shape<'a>(&'a self, output: Output, of: ShapeContext<'a>) -> BoxFuture<'a, Output> {
        // A result in MCP's form is for a client that wants it as the server wrote it.
        let is_wanted = self.artifacts.config().doors.contains(&of.scope.door);
        if !is_wanted || of.reads_stored || output.mcp.is_some() {
            return Box::pin(std::future::ready(output));
        }
        Box::pin(self.offload(output, of))
    }
}

/// Why a part of an output was not stored.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("its data is not base64")]
    NotBase64,
    #[error(transparent)]
    Store(#[from] Error),
}

fn new_artifact(media_type: &str, of: ShapeContext<'_>) -> NewArtifact {
    NewArtifact::of(of.scope, media_type, of.tool, of.call.as_str())
}

/// What a model reads of an artifact, in the place of what it holds.
#[must_use]
pub fn describe(artifact: &ArtifactInfo) -> String {
    format!(
        "[{}; the tools artifact_* read parts of it, and as an argument it is the whole]",
        describe_shortly(artifact)
    )
}

fn describe_shortly(artifact: &ArtifactInfo) -> String {
    let ArtifactInfo { reference, media_type, bytes } = artifact;
    format!("{bytes} bytes of {media_type}: {}", reference.to_value())
}

/// What a part is kept as.
fn media_type_of(block: &ContentBlock) -> String {
    let or = match (&block.kind, &block.text) {
        (ContentKind::Image, _) => "image/png",
        (_, Some(_)) => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    };
    media::checked(block.mime_type.as_deref(), or)
}

/// Whether a part is a file of text that stands nowhere in what the caller reads, as those do that
/// a script leaves.
fn is_unread_file(block: &ContentBlock, content: Option<&str>) -> bool {
    let is_shown = |text: &str| content.is_none_or(|content| content.contains(text));
    block.kind == ContentKind::Resource && block.text.as_deref().is_some_and(|text| !is_shown(text))
}

/// A picture that is somewhere else is not stored: it is shown as what it is.
fn note_of_link(block: &ContentBlock) -> Option<String> {
    let is_media = matches!(block.kind, ContentKind::Image | ContentKind::Audio);
    (is_media && block.uri.is_some()).then(|| block.to_text().into_owned())
}

fn warn(error: &(dyn std::error::Error + 'static), of: ShapeContext<'_>) {
    tracing::warn!(error, tool = of.tool, call = %of.call, "an output was not stored, and stays whole");
}
