//! Pages as models read them: markdown without noise, or plain text.
//!
//! html5gum splits a page into tags and texts as browsers do, in one pass whose time grows with the
//! page alone; [`tree`] makes a tree of them, bounded in depth and in nodes; [`markdown`] and
//! [`text`] write it, bounded in what they write. A hostile page is cut, and never costs more than
//! its length.

#[cfg(feature = "linkedin")]
mod find;
mod markdown;
mod text;
mod tree;

pub(crate) use markdown::to_markdown;
#[cfg(feature = "linkedin")]
pub(crate) use text::text_of;
pub(crate) use text::{inline_text, to_text};
#[cfg(feature = "linkedin")]
pub(crate) use tree::Element;
pub(crate) use tree::Page;
