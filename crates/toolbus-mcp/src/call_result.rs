//! The result of a tool call, in the form that goes over the bus: bounded, and free of rmcp's
//! types.

use rmcp::model::{CallToolResult, ContentBlock as Block, CustomResult, ResourceContents};
use serde_json::Value;
use toolbus_wire::message::tool::{ContentBlock, ContentKind};

/// Most bytes that are kept of the blocks of one result.
pub const RESULT_BYTES_MAX: usize = 8 << 20;
/// Most blocks that are kept of one result.
pub const BLOCKS_MAX: usize = 1_000;

/// The result of a tool call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallResult {
    /// The text blocks, joined by line ends; `None` when there is no text in them.
    pub text: Option<String>,
    /// All blocks, in order.
    pub blocks: Vec<ContentBlock>,
    /// The structured value, when the tool gives one.
    pub structured: Option<Value>,
    /// The tool says of itself that it failed.
    pub is_error: bool,
    /// How much did not fit. The text ends with a line about it.
    pub left_out: Option<LeftOut>,
}

/// How much of a result was over [`RESULT_BYTES_MAX`] or [`BLOCKS_MAX`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Blocks that are missing.
    pub blocks: usize,
    /// Bytes that are missing, those of missing blocks, of a cut text and of the structured value.
    pub bytes: usize,
}

impl CallResult {
    pub(crate) fn from_mcp(result: CallToolResult) -> Self {
        let blocks = result.content.into_iter().map(to_wire);
        Self::within_limits(blocks, result.structured_content, result.is_error == Some(true))
    }

    /// Reads an answer that rmcp does not take for a tool's result, such as one with a kind of
    /// block that is newer than it. `None` when it is none.
    pub(crate) fn from_unknown(CustomResult(mut value): CustomResult) -> Option<Self> {
        let Value::Array(content) = value.get_mut("content")?.take() else { return None };
        let blocks = content.into_iter().map(|block| {
            serde_json::from_value(block.clone())
                .map_or_else(|_| text_block(block.to_string()), to_wire)
        });
        let is_error = value.get("isError") == Some(&Value::Bool(true));
        let structured = value.get_mut("structuredContent").map(Value::take);
        Some(Self::within_limits(blocks, structured, is_error))
    }

    /// Adds a line of this bridge at the end.
    pub(crate) fn add_note(&mut self, note: &str) {
        let text = self.text.take().map_or_else(String::new, |text| text + "\n");
        self.text = Some(text + note);
        self.blocks.push(text_block(note.to_owned()));
    }

    fn within_limits(
        blocks: impl Iterator<Item = ContentBlock>,
        structured: Option<Value>,
        is_error: bool,
    ) -> Self {
        let mut room = RESULT_BYTES_MAX;
        let mut left_out = LeftOut::default();
        let mut fitting = Vec::new();

        for block in blocks {
            let bytes = block_bytes(&block);
            let fits = fitting.len() < BLOCKS_MAX && left_out.blocks == 0;
            if fits && bytes <= room {
                room -= bytes;
                fitting.push(block);
            } else if let Some(cut) = Some(block).filter(|_| fits).and_then(|b| cut_text(b, room)) {
                left_out.bytes += bytes - block_bytes(&cut);
                room = 0;
                fitting.push(cut);
            } else {
                left_out.blocks += 1;
                left_out.bytes += bytes;
            }
        }

        let structured = structured.filter(|value| {
            let bytes = value.to_string().len();
            let fits = bytes <= room;
            left_out.bytes += if fits { 0 } else { bytes };
            fits
        });

        let left_out = Some(left_out).filter(|left_out| *left_out != LeftOut::default());
        Self {
            text: join_text(&fitting, left_out),
            blocks: fitting,
            structured,
            is_error,
            left_out,
        }
    }
}

/// The text of all blocks, with the note about what is left out.
fn join_text(blocks: &[ContentBlock], left_out: Option<LeftOut>) -> Option<String> {
    let texts = blocks.iter().filter(|block| block.kind == ContentKind::Text);
    let texts: Vec<&str> = texts.filter_map(|block| block.text.as_deref()).collect();
    let mut text = texts.join("\n");
    if let Some(LeftOut { blocks, bytes }) = left_out {
        let note = format!("[{bytes} bytes and {blocks} blocks of this result are left out]");
        text = [text, note].join("\n");
    }
    Some(text).filter(|text| !text.is_empty())
}

/// Cuts a text that is too long. Other blocks are of no use in part.
fn cut_text(mut block: ContentBlock, room: usize) -> Option<ContentBlock> {
    let text = block.text.as_mut().filter(|_| block.kind == ContentKind::Text)?;
    text.truncate(text.floor_char_boundary(room));
    (!text.is_empty()).then_some(block)
}

/// The bytes of a block's members.
pub(crate) fn block_bytes(block: &ContentBlock) -> usize {
    [&block.text, &block.data, &block.uri, &block.mime_type]
        .into_iter()
        .flatten()
        .map(String::len)
        .sum()
}

fn empty_block(kind: ContentKind) -> ContentBlock {
    ContentBlock { kind, text: None, data: None, mime_type: None, uri: None }
}

fn text_block(text: String) -> ContentBlock {
    ContentBlock { text: Some(text), ..empty_block(ContentKind::Text) }
}

/// Converts a block of MCP to one of the bus.
pub(crate) fn to_wire(mcp: Block) -> ContentBlock {
    match mcp {
        Block::Text(text) => text_block(text.text),
        Block::Image(image) => ContentBlock {
            data: Some(image.data),
            mime_type: Some(image.mime_type),
            ..empty_block(ContentKind::Image)
        },
        Block::Audio(audio) => ContentBlock {
            data: Some(audio.data),
            mime_type: Some(audio.mime_type),
            ..empty_block(ContentKind::Audio)
        },

        Block::Resource(embedded) => resource_block(embedded.resource),
        Block::ResourceLink(link) => ContentBlock {
            text: Some(link.title.unwrap_or(link.name)),
            mime_type: link.mime_type,
            uri: Some(link.uri),
            ..empty_block(ContentKind::Resource)
        },
        unknown => {
            text_block(serde_json::to_string(&unknown).unwrap_or_else(|_| "unknown content".into()))
        }
    }
}

fn resource_block(contents: ResourceContents) -> ContentBlock {
    let resource = empty_block(ContentKind::Resource);
    match contents {
        ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
            ContentBlock { text: Some(text), mime_type, uri: Some(uri), ..resource }
        }
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            ContentBlock { data: Some(blob), mime_type, uri: Some(uri), ..resource }
        }
        _ => resource,
    }
}

#[cfg(test)]
mod tests;
