//! Protection from large results: what a model could not take is kept in working memory in chunks,
//! and the model gets an index of them.
//!
//! Where it cannot be kept, or is only to be cut, the model gets its beginning and is told what is
//! missing, and why.

use futures_util::future::BoxFuture;
use toolbus_artifacts::{Artifacts, NewArtifact, describe};
use toolbus_tools::call::Output;
use toolbus_tools::invoker::{Shape, ShapeContext};
use toolbus_tools::{ArtifactInfo, Door};
use toolbus_wire::envelope::new_id;
use toolbus_wire::message::tool::ContentKind;

use crate::Error;
use crate::chunker::{end_of_units, utf16_len};
use crate::config::ResultThreshold;
use crate::long_text::{KeptText, LongText};
use crate::texts::group_thousands;
use crate::working::WorkingMemory;

/// Longest name of a tool in a key, in characters.
const TOOL_CHARS_MAX: usize = 40;
/// How much of a random id is in a key, in characters.
const RUN_ID_CHARS: usize = 8;
/// The category of chunks and indexes.
const CATEGORY: &str = "tool-result";

/// Puts results that are too long for a model into working memory, and an index in their place.
///
/// A caller's door says whether it is a model's. The results of tools that read what is stored
/// already ([`toolbus_tools::Tool::reads_stored`]) are never too long.
pub struct ProtectResults {
    memory: WorkingMemory,
    threshold: ResultThreshold,
    artifacts: Option<Artifacts>,
    doors: Vec<Door>,
    are_cut: bool,
}

/// A result that is too long.
struct LargeResult<'a> {
    text: String,
    units: usize,
    tool: &'a str,
}

impl ProtectResults {
    /// Keeps long results of turns in this memory; `threshold` says how long that is.
    #[must_use]
    pub fn new(memory: WorkingMemory, threshold: ResultThreshold) -> Self {
        Self { memory, threshold, artifacts: None, doors: vec![Door::Turn], are_cut: false }
    }

    /// The same for the callers of these doors.
    #[must_use]
    pub fn for_doors(self, doors: Vec<Door>) -> Self {
        Self { doors, ..self }
    }

    /// The same, which keeps each long result as an artifact, too, and names both.
    #[must_use]
    pub fn with_artifacts(self, artifacts: Artifacts) -> Self {
        Self { artifacts: Some(artifacts), ..self }
    }

    /// The same, which keeps nothing in memory: a long result is cut, and a notice says so.
    #[must_use]
    pub fn cutting(self) -> Self {
        Self { are_cut: true, ..self }
    }

    async fn protect(&self, mut output: Output, of: ShapeContext<'_>) -> Output {
        let threshold = self.threshold.of(of.scope);
        let is_long = |text: &str| end_of_units(text, threshold) < text.len();
        let has_long_value = output.structured.as_ref().is_some_and(|value| is_long(value.text()));
        let text = match output.content.take() {
            Some(content) => content,
            // The value is the same as the text, so it is the text where there is none.
            None if has_long_value => {
                output.structured.take().map(|value| value.text().to_owned()).unwrap_or_default()
            }
            None => return output,
        };
        if !is_long(&text) {
            output.content = Some(text);
            return output;
        }
        if has_long_value {
            output.structured = None;
        }

        let text = LargeResult { units: utf16_len(&text), text, tool: of.tool };
        let artifact = match output.artifact.take() {
            Some(artifact) => Some(artifact),
            None => self.store(&text.text, of).await,
        };
        let content = match self.are_cut {
            true => text.cut(threshold, artifact.as_ref()),
            false => self.keep_or_truncate(text, artifact.as_ref(), of).await,
        };
        // The parts have the same text, and no more than that.
        output.blocks.retain(|block| block.kind != ContentKind::Text);
        Output { content: Some(content), artifact, ..output }
    }

    /// The index of a text that was kept, or its beginning.
    async fn keep_or_truncate(
        &self,
        text: LargeResult<'_>,
        artifact: Option<&ArtifactInfo>,
        of: ShapeContext<'_>,
    ) -> String {
        let units = text.units;
        let beginning = text.beginning(self.threshold.of(of.scope));
        let mut shown = match self.keep(text, of).await {
            Ok(kept) => return describe_kept(&kept, of.tool, units, artifact),
            Err(Error::NoSession) => beginning,
            Err(error) => {
                let error_source = &error as &dyn std::error::Error;
                tracing::warn!(error = error_source, tool = of.tool, call = %of.call, "could not keep large result in working memory");
                let reason = match error {
                    Error::Store(_) => "the memory of this agent cannot be used now".to_owned(),
                    error => error.to_string(),
                };
                format!("{beginning}\n[the rest could not be kept in working memory: {reason}]")
            }
        };

        if let Some(artifact) = artifact {
            shown.push_str(&format!("\n{}", describe(artifact)));
        }
        shown
    }

    /// Keeps a text in chunks, all of it or nothing.
    async fn keep(&self, text: LargeResult<'_>, of: ShapeContext<'_>) -> Result<KeptText, Error> {
        let key = text.key();
        let text = LongText {
            text: text.text,
            key,
            chunk_units: self.threshold.chunk_units(of.scope),
            category: CATEGORY,
            ttl: None,
        };
        self.memory.keep_text(of.scope, text).await
    }

    /// Keeps the whole as an artifact, where there are artifacts.
    async fn store(&self, text: &str, of: ShapeContext<'_>) -> Option<ArtifactInfo> {
        let artifacts = self.artifacts.as_ref()?;
        let new = NewArtifact::of(of.scope, "text/plain; charset=utf-8", of.tool, of.call.as_str());
        match artifacts.store(new, text.to_owned().into_bytes()).await {
            Ok(stored) => {
                of.scope.artifacts.add(&stored.reference);
                Some(stored)
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, tool = of.tool, call = %of.call, "could not store large result as an artifact");
                None
            }
        }
    }
}

impl Shape for ProtectResults {
    fn shape<'a>(&'a self, output: Output, of: ShapeContext<'a>) -> BoxFuture<'a, Output> {
        // A result in MCP's form is for a client that wants it as the server wrote it.
        let is_read_whole = of.reads_stored || output.mcp.is_some();
        if is_read_whole || !self.doors.contains(&of.scope.door) {
            return Box::pin(std::future::ready(output));
        }
        Box::pin(self.protect(output, of))
    }
}

impl LargeResult<'_> {
    /// What its keys begin with.
    fn key(&self) -> String {
        let plain = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' };
        let tool: String = self.tool.chars().map(plain).take(TOOL_CHARS_MAX).collect();
        format!("tool-{tool}-{}", &new_id()[..RUN_ID_CHARS])
    }

    /// How it begins, and how much more there is.
    fn beginning(&self, units_max: usize) -> String {
        let end = end_of_units(&self.text, units_max);
        let omitted = self.units - utf16_len(&self.text[..end]);
        format!("{}\n[result truncated — {omitted} chars omitted]", &self.text[..end])
    }

    /// How it begins, a notice of how much there is, and where all of it is.
    fn cut(&self, units_max: usize, artifact: Option<&ArtifactInfo>) -> String {
        let beginning = &self.text[..end_of_units(&self.text, units_max)];
        let mut cut = format!(
            "{beginning}\n\nOUTPUT TRUNCATED: Showing {} of {} characters from {}",
            group_thousands(utf16_len(beginning), ','),
            group_thousands(self.units, ','),
            self.tool
        );
        if let Some(artifact) = artifact {
            cut.push_str(&format!("\n{}", describe(artifact)));
        }
        cut
    }
}

/// What the model gets in place of a text that was kept.
fn describe_kept(
    kept: &KeptText,
    tool: &str,
    units: usize,
    artifact: Option<&ArtifactInfo>,
) -> String {
    let (units, count, key) = (group_thousands(units, ' '), kept.chunks.len(), &kept.index_key);
    let mut index = format!(
        "Tool result for '{tool}' is large ({units} chars) and has been split into {count} \
         chunk(s)\nstored in working memory.\nA document outline is stored at key `{key}` — \
         retrieve\nit with get_from_working_memory to navigate the content by section heading.\n\
         Call get_from_working_memory(key) for each relevant chunk BEFORE drawing conclusions.\n"
    );
    if let Some(artifact) = artifact {
        index.push_str(&format!("{}\n", describe(artifact)));
    }

    index.push_str("\n| # | Heading | Key |\n");
    index.push_str("|---|---------|--------------------------------------------------|");
    index.push_str(&kept.rows("Part"));
    index
}

#[cfg(test)]
mod tests;
