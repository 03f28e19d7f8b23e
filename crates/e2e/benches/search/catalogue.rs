//! Tools to search for: those of real servers, and as many synthetic ones as are wanted.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use toolbus_embeddings::StaticModel;
use toolbus_search::{Embed, Embedding, EmbeddingConfig, ToolDocument, ToolIndex};
use toolbus_tools::id::ToolId;

const EMBEDDED_TIMEOUT: Duration = Duration::from_secs(300);

pub(super) fn open_model(weights: &Path, tokenizer: &Path) -> anyhow::Result<Arc<dyn Embed>> {
    Ok(Arc::new(StaticModel::open(weights, tokenizer)?))
}

/// The tools that real servers offer.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<ToolDocument>> {
    let tools: Vec<Value> = serde_json::from_slice(&std::fs::read(path)?)?;
    let document = |tool: &Value| {
        let text = |member: &str| tool[member].as_str().map(str::to_owned).context("no text");
        let (server, name) = (text("server")?, text("name")?);
        Ok(ToolDocument {
            id: ToolId::of(&server, &name),
            name,
            description: text("description")?,
            parameters: text("parameters")?,
            server,
            tags: Vec::new(),
        })
    };
    tools.iter().map(document).collect()
}

const VERBS: [&str; 16] = [
    "create", "list", "update", "delete", "search", "export", "import", "archive", "assign",
    "send", "read", "merge", "copy", "approve", "schedule", "count",
];
const THINGS: [&str; 32] = [
    "issue",
    "invoice",
    "customer",
    "order",
    "branch",
    "message",
    "channel",
    "ticket",
    "report",
    "file",
    "folder",
    "table",
    "record",
    "calendar",
    "event",
    "contact",
    "payment",
    "shipment",
    "pipeline",
    "deployment",
    "container",
    "volume",
    "dashboard",
    "alert",
    "metric",
    "page",
    "comment",
    "user",
    "role",
    "project",
    "sprint",
    "task",
];
const DETAILS: [&str; 24] = [
    "by its number",
    "with all its fields",
    "of the last month",
    "in bulk",
    "as a spreadsheet",
    "for a team",
    "in a workspace",
    "without asking",
    "with a template",
    "by label",
    "by owner",
    "with attachments",
    "in the background",
    "for review",
    "by status",
    "within a region",
    "across projects",
    "with history",
    "in order of date",
    "by priority",
    "for an account",
    "with filters",
    "page by page",
    "from a backup",
];

/// The synthetic tool of a number; the same at any time.
pub(super) fn synthetic(number: usize) -> ToolDocument {
    // A linear congruential generator, so that neighbours differ.
    let mut state = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut pick = |many: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % many
    };
    let (verb, thing) = (VERBS[pick(VERBS.len())], THINGS[pick(THINGS.len())]);
    let (one, other) = (DETAILS[pick(DETAILS.len())], DETAILS[pick(DETAILS.len())]);
    let (second, third) = (THINGS[pick(THINGS.len())], THINGS[pick(THINGS.len())]);
    let server = format!("server{}", number / 20);
    let name = format!("{verb}_{thing}_{number}");
    ToolDocument {
        id: ToolId::of(&format!("mcp:{server}"), &name),
        name,
        description: format!(
            "{verb}s a {thing} {one}, {other}. The {second} that it belongs to must exist; of each \
             {third} the latest revision is taken, and code{} marks it.",
            pick(20_000)
        ),
        parameters: format!("{thing}_id The {thing}. {second} Where it belongs. limit How many."),
        server,
        tags: vec![thing.to_owned()],
    }
}

/// An index of tools with their vectors; the model goes on as long as the future is polled.
pub(super) async fn index(
    tools: Vec<ToolDocument>,
    model: &Arc<dyn Embed>,
) -> anyhow::Result<ToolIndex> {
    let (index, embedding) = ToolIndex::with_model(Arc::clone(model), EmbeddingConfig::default());
    index.update(tools, &[]);
    wait_for_vectors(&index, embedding).await?;
    Ok(index)
}

pub(super) async fn wait_for_vectors(
    index: &ToolIndex,
    embedding: Embedding,
) -> anyhow::Result<()> {
    let ready = async {
        while index.waiting_for_vectors() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(EMBEDDED_TIMEOUT, embedding.run(ready)).await?;
    ensure!(index.waiting_for_vectors() == 0, "not all tools are embedded");
    Ok(())
}
