//! The result of a tool call, in the form that goes over the bus: bounded, and free of rmcp's
//! types.

use std::borrow::Cow;
use std::fmt;

use rmcp::model::{ContentBlock as Block, ResourceContents};
use serde::Deserialize;
use serde::de::{Deserializer as _, SeqAccess, Visitor};
use serde_json::value::RawValue;
use toolbus_wire::json::RawJson;
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
    pub structured: Option<RawJson>,
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

/// The members of a result that callers on the bus get.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultMembers<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    structured_content: Option<&'a RawValue>,
    #[serde(borrow)]
    is_error: Option<&'a RawValue>,
}

/// The members of a block, whatever its kind.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockMembers<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    text: Option<String>,
    data: Option<String>,
    mime_type: Option<String>,
    uri: Option<String>,
    name: Option<String>,
    title: Option<String>,
    resource: Option<ResourceMembers>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceMembers {
    uri: String,
    mime_type: Option<String>,
    text: Option<String>,
    blob: Option<String>,
}

impl CallResult {
    /// Reads the result that a server wrote. `None` when it is none of a tool.
    pub(crate) fn read(result: &RawJson) -> Option<Self> {
        // Nothing is built of a result but its parts, as texts.
        let members: ResultMembers<'_> = toolbus_json::from_checked(result.text()).ok()?;
        let mut blocks = KeptBlocks::new();
        match members.content {
            Some(content) => {
                toolbus_json::checked_parser(content.get()).deserialize_seq(&mut blocks).ok()?;
            }
            // An empty result is one that says nothing.
            None if members.structured_content.is_none() && result.members()?.is_empty() => {}
            None => {
                members.structured_content?;
            }
        }

        let KeptBlocks { kept, room, mut left_out } = blocks;
        let structured = members.structured_content.filter(|value| {
            let bytes = value.get().len();
            left_out.bytes += if bytes <= room { 0 } else { bytes };
            bytes <= room
        });

        let left_out = Some(left_out).filter(|left_out| *left_out != LeftOut::default());
        Some(Self {
            text: join_text(&kept, left_out),
            blocks: kept,
            structured: structured.map(|value| RawJson::from(value.to_owned())),
            is_error: members.is_error.is_some_and(|is_error| is_error.get() == "true"),
            left_out,
        })
    }

    /// Adds a line of this bridge at the end.
    pub(crate) fn add_note(&mut self, note: &str) {
        let text = self.text.take().map_or_else(String::new, |text| text + "\n");
        self.text = Some(text + note);
        self.blocks.push(text_block(note.to_owned()));
    }
}

/// The blocks of a result that there is room for, read one by one.
struct KeptBlocks {
    kept: Vec<ContentBlock>,
    room: usize,
    left_out: LeftOut,
}

impl KeptBlocks {
    fn new() -> Self {
        Self { kept: Vec::new(), room: RESULT_BYTES_MAX, left_out: LeftOut::default() }
    }

    fn take(&mut self, block: &RawValue) {
        if self.kept.len() >= BLOCKS_MAX || self.left_out.blocks > 0 {
            self.left_out.blocks += 1;
            self.left_out.bytes += read_bytes(block);
            return;
        }

        let block = read_block(block);
        let bytes = block_bytes(&block);
        if bytes <= self.room {
            self.room -= bytes;
            self.kept.push(block);
        } else if let Some(cut) = cut_text(block, self.room) {
            self.left_out.bytes += bytes - block_bytes(&cut);
            self.room = 0;
            self.kept.push(cut);
        } else {
            self.left_out.blocks += 1;
            self.left_out.bytes += bytes;
        }
    }
}

impl<'de> Visitor<'de> for &mut KeptBlocks {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the blocks of a result")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut blocks: A) -> Result<(), A::Error> {
        while let Some(block) = blocks.next_element::<&RawValue>()? {
            self.take(block);
        }
        Ok(())
    }
}

/// How many bytes a block has that is not kept.
fn read_bytes(block: &RawValue) -> usize {
    block_bytes(&read_block(block))
}

/// A block as the bus has it. One of a kind that is newer than this is shown as it came.
fn read_block(block: &RawValue) -> ContentBlock {
    let as_it_came = || text_block(block.get().to_owned());
    let Ok(members) = toolbus_json::from_checked::<BlockMembers<'_>>(block.get()) else {
        return as_it_came();
    };
    let BlockMembers { kind, text, data, mime_type, uri, name, title, resource } = members;

    match (&*kind, text, data, resource) {
        ("text", Some(text), _, _) => text_block(text),
        ("image", _, Some(data), _) => {
            ContentBlock { data: Some(data), mime_type, ..empty_block(ContentKind::Image) }
        }
        ("audio", _, Some(data), _) => {
            ContentBlock { data: Some(data), mime_type, ..empty_block(ContentKind::Audio) }
        }
        ("resource", _, _, Some(resource)) => ContentBlock {
            text: resource.text,
            data: resource.blob,
            mime_type: resource.mime_type,
            uri: Some(resource.uri),
            ..empty_block(ContentKind::Resource)
        },
        ("resource_link", ..) if uri.is_some() => ContentBlock {
            text: title.or(name),
            mime_type,
            uri,
            ..empty_block(ContentKind::Resource)
        },
        _ => as_it_came(),
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
