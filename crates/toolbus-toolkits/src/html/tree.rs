//! The tree of a page.
//!
//! It is made of the tags as they come, with those ends implied that people leave out. Of the rest
//! of HTML's rules for broken pages only this is kept: an end tag closes what is open within its
//! element, one without a start is passed over, and no text is lost.

use html5gum::emitters::callback::{Callback, CallbackEmitter, CallbackEvent};
use html5gum::{Span, State, Tokenizer, naive_next_state};

/// Deepest nesting. Elements below are passed over, and their texts stay.
const DEPTH_MAX: usize = 200;
/// Most nodes of a page. What follows is cut off.
const NODES_MAX: usize = 200_000;
/// Longest value of an attribute that is kept, in bytes.
const ATTRIBUTE_BYTES_MAX: usize = 4 << 10;
/// Longest title, in bytes.
const TITLE_BYTES_MAX: usize = 1 << 10;
/// Longest name of a tag that is kept, in bytes.
const TAG_BYTES_MAX: usize = 40;

/// Elements that have no end tag.
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];
/// Elements in which no text is for readers.
const RAW: [&str; 7] = ["script", "style", "noscript", "iframe", "noembed", "noframes", "textarea"];
/// Elements that may be in a head.
const OF_HEAD: [&str; 8] =
    ["title", "meta", "link", "script", "style", "base", "noscript", "template"];
/// Elements that begin a line of their own.
const BLOCKS: [&str; 42] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "center",
    "dd",
    "details",
    "dialog",
    "dir",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hgroup",
    "hr",
    "html",
    "li",
    "main",
    "menu",
    "nav",
    "ol",
    "p",
    "pre",
    "search",
    "section",
    "summary",
    "table",
    "tr",
    "ul",
    "caption",
];
/// Elements out of which an end tag of an element around them does not lead.
const SCOPES: [&str; 5] = ["table", "td", "th", "caption", "template"];
/// Elements of tables, which do lead out of cells.
const OF_TABLES: [&str; 8] = ["table", "thead", "tbody", "tfoot", "tr", "td", "th", "caption"];

/// The place of a node.
type NodeId = usize;

/// A page.
#[derive(Debug)]
pub(crate) struct Page {
    nodes: Vec<Node>,
    /// What it is called, in one line.
    pub(crate) title: Option<String>,
    /// There was more than is kept.
    pub(crate) is_cut: bool,
}

#[derive(Debug)]
enum Node {
    Element(Element),
    Text(String),
}

/// An element.
#[derive(Debug, Default)]
pub(crate) struct Element {
    /// Its tag, in lower case.
    pub(crate) tag: String,
    /// What readers of it look at.
    pub(crate) attributes: Vec<(&'static str, String)>,
    children: Vec<NodeId>,
    /// Something below it begins a line of its own.
    pub(crate) has_blocks: bool,
}

/// A child, as those who walk see it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Child<'a> {
    Element(&'a Element),
    Text(&'a str),
}

/// Attributes that are kept.
const KEPT: [&str; 9] =
    ["href", "src", "alt", "role", "class", "hidden", "style", "start", "datetime"];

/// What a page is made of.
enum Token {
    Start(StartTag),
    End(String),
    Text(String),
}

/// A start tag.
#[derive(Default)]
struct StartTag {
    name: String,
    /// Those that are kept. Of several of one name the first counts.
    attributes: Vec<(&'static str, String)>,
    is_self_closing: bool,
    /// How what comes next is split.
    next_state: Option<State>,
}

/// Puts start tags together. A tag may have as many attributes as the page has room for: those that
/// are not kept are passed over as they come.
#[derive(Default)]
struct TagReader {
    tag: StartTag,
    /// A value that comes is that of the last attribute.
    takes_value: bool,
}

/// What is open while a page is read.
struct Builder {
    page: Page,
    open: Vec<NodeId>,
    /// Where the head is among what is open.
    head: Option<usize>,
    /// The end tag that raw text is passed over to.
    skipped_to: Option<String>,
    title: String,
    /// How many titles there were. The first counts.
    titles: usize,
}

impl Page {
    /// Reads a page.
    pub(crate) fn parse(html: &str) -> Self {
        let emitter: CallbackEmitter<TagReader, Token> = CallbackEmitter::default();
        let mut tokenizer = Tokenizer::new_with_emitter(html, emitter);
        let mut builder = Builder::new();

        while let Some(token) = tokenizer.next() {
            let Ok(token) = token;
            match token {
                Token::Start(mut tag) => {
                    // Within pictures these are elements like all others.
                    if let Some(state) = tag.next_state.take()
                        && !builder.is_in_picture()
                    {
                        tokenizer.set_state(state);
                    }
                    builder.start(tag);
                }
                Token::End(name) => builder.end(&name),
                Token::Text(text) => builder.text(&text),
            }
            if builder.page.nodes.len() >= NODES_MAX {
                builder.page.is_cut = true;
                break;
            }
        }
        builder.finish()
    }

    /// The element that everything is in.
    pub(crate) fn root(&self) -> &Element {
        match &self.nodes[0] {
            Node::Element(root) => root,
            Node::Text(_) => unreachable!("the first node is the root"),
        }
    }

    /// The children of an element.
    pub(crate) fn children<'a>(
        &'a self,
        element: &'a Element,
    ) -> impl Iterator<Item = Child<'a>> + 'a {
        element.children.iter().map(|id| match &self.nodes[*id] {
            Node::Element(element) => Child::Element(element),
            Node::Text(text) => Child::Text(text),
        })
    }
}

impl Element {
    /// The value of an attribute.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        let mut found = self.attributes.iter().filter(|(known, _)| *known == name);
        found.next().map(|(_, value)| value.as_str())
    }

    /// Whether it begins a line of its own.
    pub(crate) fn is_block(&self) -> bool {
        BLOCKS.contains(&self.tag.as_str())
    }
}

impl Callback<Token, ()> for TagReader {
    fn handle_event(&mut self, event: CallbackEvent<'_>, _span: Span<()>) -> Option<Token> {
        match event {
            CallbackEvent::OpenStartTag { name } => {
                let next_state = naive_next_state(name);
                self.tag = StartTag { name: name_of(name), next_state, ..StartTag::default() };
            }
            CallbackEvent::AttributeName { name } => {
                let attributes = &mut self.tag.attributes;
                let is_new = |kept: &&str| attributes.iter().all(|(known, _)| known != kept);
                let kept = KEPT.into_iter().find(|kept| kept.as_bytes() == name).filter(is_new);
                self.takes_value = kept.is_some();
                attributes.extend(kept.map(|name| (name, String::new())));
            }
            CallbackEvent::AttributeValue { value } => {
                if let Some((_, text)) = self.tag.attributes.last_mut()
                    && self.takes_value
                {
                    *text = bounded(value, ATTRIBUTE_BYTES_MAX);
                }
            }
            CallbackEvent::CloseStartTag { self_closing } => {
                self.tag.is_self_closing = self_closing;
                return Some(Token::Start(std::mem::take(&mut self.tag)));
            }

            CallbackEvent::EndTag { name } => return Some(Token::End(name_of(name))),
            CallbackEvent::String { value } => {
                return Some(Token::Text(String::from_utf8_lossy(value).into_owned()));
            }
            CallbackEvent::Comment { .. }
            | CallbackEvent::Doctype { .. }
            | CallbackEvent::Error(_) => {}
        }
        None
    }
}

impl Builder {
    fn new() -> Self {
        let root = Node::Element(Element { tag: "html".to_owned(), ..Element::default() });
        let page = Page { nodes: vec![root], title: None, is_cut: false };
        let open = vec![0];
        Self { page, open, head: None, skipped_to: None, title: String::new(), titles: 0 }
    }

    fn start(&mut self, tag: StartTag) {
        let name = tag.name;
        if self.skipped_to.is_some() {
            return;
        }
        if matches!(name.as_str(), "html" | "body") {
            return self.close_head(&name);
        }
        if RAW.contains(&name.as_str()) {
            // What opens and closes in one is empty in a picture, and nowhere else.
            if !(tag.is_self_closing && self.is_in_picture()) {
                self.skipped_to = Some(name);
            }
            return;
        }

        self.close_implied(&name);
        let is_void = VOID.contains(&name.as_str());
        let is_closed = is_void || (tag.is_self_closing && self.is_in_picture());
        if name == "title" && !self.is_in_picture() {
            self.titles += 1;
        }
        if self.open.len() > DEPTH_MAX && !is_void {
            return;
        }

        let element = Element { attributes: tag.attributes, tag: name, ..Element::default() };
        if element.is_block() {
            self.mark_blocks();
        }
        let is_head = element.tag == "head";
        let id = self.add(Node::Element(element));
        if !is_closed {
            if is_head && self.head.is_none() {
                self.head = Some(self.open.len());
            }
            self.open.push(id);
        }
    }

    fn end(&mut self, name: &str) {
        if let Some(skipped) = &self.skipped_to {
            if skipped == name {
                self.skipped_to = None;
            }
            return;
        }
        if name == "br" {
            self.add(Node::Element(Element { tag: "br".to_owned(), ..Element::default() }));
            return;
        }

        let is_of_table = OF_TABLES.contains(&name);
        for at in (1..self.open.len()).rev() {
            let open = self.tag_of(self.open[at]);
            if open == name {
                self.close_from(at);
                return;
            }
            if !is_of_table && SCOPES.contains(&open) {
                return;
            }
        }
    }

    fn text(&mut self, text: &str) {
        if self.skipped_to.is_some() {
            return;
        }
        if self.open.last().is_some_and(|id| self.tag_of(*id) == "title") {
            // That of a picture is not the page's.
            if self.titles == 1 && !self.is_in_picture() {
                self.title.push_str(text);
            }
            return;
        }
        if !text.trim().is_empty() {
            self.close_head("");
        }
        self.add(Node::Text(text.to_owned()));
    }

    fn finish(mut self) -> Page {
        let title = self.title.split_whitespace().collect::<Vec<_>>().join(" ");
        let title = bounded(title.as_bytes(), TITLE_BYTES_MAX);
        self.page.title = (!title.is_empty()).then_some(title);
        self.page
    }

    /// Closes what the start of this element ends.
    fn close_implied(&mut self, name: &str) {
        self.close_head(name);
        match name {
            "li" => self.close_within(&["li"], &["ul", "ol", "menu", "td", "th", "table"]),
            "dt" | "dd" => self.close_within(&["dt", "dd"], &["dl", "td", "th", "table"]),
            "tr" => self.close_within(&["tr"], &["table"]),
            "td" | "th" => self.close_within(&["td", "th"], &["tr", "table"]),
            "thead" | "tbody" | "tfoot" => {
                self.close_within(&["thead", "tbody", "tfoot"], &["table"]);
            }
            _ => {}
        }
        if BLOCKS.contains(&name) {
            self.close_paragraph();
        }
    }

    /// Ends the head with what cannot be in it.
    fn close_head(&mut self, name: &str) {
        let Some(head) = self.head.filter(|_| !OF_HEAD.contains(&name)) else { return };
        if !self.open.iter().any(|id| self.tag_of(*id) == "template") {
            self.close_from(head);
        }
    }

    /// Closes what is open from this place on.
    fn close_from(&mut self, at: usize) {
        self.open.truncate(at);
        self.head = self.head.filter(|head| *head < at);
    }

    /// Closes a paragraph with what stands on lines of its own.
    fn close_paragraph(&mut self) {
        for at in (1..self.open.len()).rev() {
            let open = self.tag_of(self.open[at]);
            if open == "p" {
                return self.close_from(at);
            }
            if BLOCKS.contains(&open) || SCOPES.contains(&open) {
                return;
            }
        }
    }

    /// Closes the nearest of these that is open within those, and what is in it.
    fn close_within(&mut self, names: &[&str], limits: &[&str]) {
        for at in (1..self.open.len()).rev() {
            let open = self.tag_of(self.open[at]);
            if names.contains(&open) {
                self.close_from(at);
                return;
            }
            if limits.contains(&open) {
                return;
            }
        }
    }

    fn is_in_picture(&self) -> bool {
        self.open.iter().any(|id| matches!(self.tag_of(*id), "svg" | "math"))
    }

    /// Says of all that is open that it has blocks.
    fn mark_blocks(&mut self) {
        for id in self.open.iter().rev() {
            match &mut self.page.nodes[*id] {
                Node::Element(element) if !element.has_blocks => element.has_blocks = true,
                _ => return,
            }
        }
    }

    fn add(&mut self, node: Node) -> NodeId {
        let id = self.page.nodes.len();
        self.page.nodes.push(node);
        let parent = self.open.last().copied().unwrap_or_default();
        if let Node::Element(element) = &mut self.page.nodes[parent] {
            element.children.push(id);
        }
        id
    }

    fn tag_of(&self, id: NodeId) -> &str {
        match &self.page.nodes[id] {
            Node::Element(element) => &element.tag,
            Node::Text(_) => "",
        }
    }
}

fn name_of(name: &[u8]) -> String {
    bounded(name, TAG_BYTES_MAX)
}

/// The beginning of a text.
fn bounded(bytes: &[u8], max: usize) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(max)]);
    // Half a character at the end is none.
    match bytes.len() > max {
        true => text.trim_end_matches('\u{fffd}').to_owned(),
        false => text.into_owned(),
    }
}

#[cfg(test)]
mod tests;
