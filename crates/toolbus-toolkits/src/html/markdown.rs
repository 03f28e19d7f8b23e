//! A page in markdown, without what surrounds its content.

use reqwest::Url;

use super::tree::{Child, Element, Page};

/// Elements that are noise around the content of a page.
const NOISE: [&str; 20] = [
    "head", "title", "script", "style", "noscript", "svg", "math", "iframe", "nav", "header",
    "footer", "aside", "figure", "picture", "form", "template", "select", "canvas", "object",
    "datalist",
];
/// Roles of such elements.
const NOISE_ROLES: [&str; 3] = ["navigation", "banner", "contentinfo"];
/// Deepest nesting of lists and quotes that is shown: each level is written in every line.
const INDENT_LEVELS_MAX: usize = 10;
/// How much may be written for each byte of a page, and at least, in bytes.
const GROWTH_MAX: usize = 4;
const WRITTEN_BYTES_MIN: usize = 64 << 10;
/// Longest address that is written, in bytes.
const HREF_BYTES_MAX: usize = 2 << 10;
/// Most columns of a table.
const COLUMNS_MAX: usize = 50;

/// Writes a page in markdown, and says whether all of it is there. Links are resolved against the
/// address that it came from.
pub(crate) fn to_markdown(page: &Page, base: &Url, html_bytes: usize) -> (String, bool) {
    let mut writer = Writer {
        page,
        base,
        out: String::new(),
        prefix: String::new(),
        marker: None,
        is_tight: false,
        levels: 0,
        bytes_max: html_bytes.saturating_mul(GROWTH_MAX).max(WRITTEN_BYTES_MIN),
        is_full: false,
    };
    writer.blocks(page.root());
    (writer.out, page.is_cut || writer.is_full)
}

/// Whether an element is noise.
fn is_noise(element: &Element) -> bool {
    let is_hidden = || {
        element.attribute("hidden").is_some()
            || element.attribute("style").is_some_and(|style| {
                let plain = style.bytes().filter(|byte| !byte.is_ascii_whitespace());
                let plain: Vec<u8> = plain.map(|byte| byte.to_ascii_lowercase()).collect();
                String::from_utf8_lossy(&plain).contains("display:none")
            })
    };
    let has_noise_role = || {
        let role = element.attribute("role").map(str::trim);
        role.is_some_and(|role| NOISE_ROLES.iter().any(|noise| role.eq_ignore_ascii_case(noise)))
    };
    NOISE.contains(&element.tag.as_str()) || has_noise_role() || is_hidden()
}

struct Writer<'a> {
    page: &'a Page,
    base: &'a Url,
    out: String,
    /// What each line begins with.
    prefix: String,
    /// What the next line begins with in its place: the mark of an item.
    marker: Option<String>,
    /// The next block follows the last one without a blank line.
    is_tight: bool,
    levels: usize,
    bytes_max: usize,
    is_full: bool,
}

impl<'a> Writer<'a> {
    /// Writes what is in an element: texts as paragraphs, blocks as they are.
    fn blocks(&mut self, element: &'a Element) {
        let mut paragraph = String::new();
        for child in self.page.children(element) {
            if self.is_full {
                return;
            }

            match child {
                Child::Text(text) => push_collapsed(&mut paragraph, text),
                Child::Element(child) if is_noise(child) => {}
                Child::Element(child) if child.is_block() => {
                    self.paragraph(&mut paragraph);
                    self.block(child);
                }
                // What is around blocks is as good as not there; a link is a line of text.
                Child::Element(child) if child.has_blocks && child.tag != "a" => {
                    self.paragraph(&mut paragraph);
                    self.blocks(child);
                }
                Child::Element(child) => self.inline(child, &mut paragraph),
            }
        }
        self.paragraph(&mut paragraph);
    }

    fn block(&mut self, element: &'a Element) {
        match element.tag.as_str() {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let level = usize::from(element.tag.as_bytes()[1] - b'0');
                let text = self.inline_of(element).replace('\n', " ");
                if !text.trim().is_empty() {
                    self.emit(&format!("{} {}", "#".repeat(level), text.trim()));
                }
            }
            "dt" => {
                let text = self.inline_of(element);
                if !text.trim().is_empty() {
                    self.emit(&format!("**{}**", text.trim().replace('\n', " ")));
                }
            }

            "hr" => self.emit("---"),
            "pre" => self.code(element),
            "blockquote" => self.quote(element),
            "ul" | "ol" | "menu" | "dir" => self.list(element),
            "li" => self.item(element, "- "),
            "table" => self.table(element),
            _ => self.blocks(element),
        }
    }

    fn list(&mut self, list: &'a Element) {
        let is_ordered = list.tag == "ol";
        let start = list.attribute("start").and_then(|start| start.trim().parse::<u32>().ok());
        let mut number = start.unwrap_or(1);
        let is_nested = self.marker.is_some() || self.levels > 0;
        let mut is_first = true;

        for child in self.page.children(list) {
            let item = match child {
                Child::Element(item) if is_noise(item) => continue,
                Child::Element(item) => item,
                Child::Text(text) => {
                    self.paragraph(&mut text.to_owned());
                    continue;
                }
            };
            let marker = if is_ordered { format!("{number}. ") } else { "- ".to_owned() };
            self.is_tight = !is_first || is_nested;
            self.item(item, &marker);
            number = number.saturating_add(1);
            is_first = false;
        }
        self.is_tight = false;
    }

    fn item(&mut self, item: &'a Element, marker: &str) {
        if self.levels >= INDENT_LEVELS_MAX {
            return self.blocks(item);
        }
        let outer = self.prefix.clone();
        self.marker = Some(format!("{}{marker}", self.marker.take().unwrap_or(outer.clone())));
        self.prefix.push_str(&" ".repeat(marker.len()));
        self.levels += 1;

        self.blocks(item);
        self.levels -= 1;
        self.prefix = outer;
        self.marker = None;
    }

    fn quote(&mut self, quote: &'a Element) {
        if self.levels >= INDENT_LEVELS_MAX {
            return self.blocks(quote);
        }
        let outer = self.prefix.clone();
        if let Some(marker) = &mut self.marker {
            marker.push_str("> ");
        }
        self.prefix.push_str("> ");
        self.levels += 1;
        self.blocks(quote);
        self.levels -= 1;
        self.prefix = outer;
    }

    fn code(&mut self, pre: &'a Element) {
        let mut text = String::new();
        self.raw(pre, &mut text);
        let text = text.trim_matches('\n').trim_end();
        if text.is_empty() {
            return;
        }

        let code = self.page.children(pre).find_map(|child| match child {
            Child::Element(code) if code.tag == "code" => Some(code),
            _ => None,
        });
        let language = code.and_then(language_of).or_else(|| language_of(pre)).unwrap_or_default();
        let fence = "`".repeat(longest_run(text, '`').max(2) + 1);
        self.emit(&format!("{fence}{language}\n{text}\n{fence}"));
    }

    fn table(&mut self, table: &'a Element) {
        let mut rows = Vec::new();
        self.rows(table, &mut rows);
        self.captions(table);
        let cells = || rows.iter().flat_map(|(cells, _)| cells);
        // Tables that only lay out a page.
        let columns = rows.iter().map(|(cells, _)| cells.len()).max().unwrap_or_default();
        let is_layout = cells().any(|cell| has_layout(self.page, cell));
        if !(2..=COLUMNS_MAX).contains(&columns) || is_layout {
            for (cells, _) in rows {
                for cell in cells {
                    self.blocks(cell);
                }
            }
            return;
        }

        let mut lines = Vec::new();
        let has_head = rows.first().is_some_and(|(_, is_head)| *is_head);
        if !has_head {
            lines.push(format!("|{}", "   |".repeat(columns)));
            lines.push(format!("|{}", " --- |".repeat(columns)));
        }
        for (at, (cells, _)) in rows.iter().enumerate() {
            let mut line = "|".to_owned();
            for column in 0..columns {
                let text = cells.get(column).map(|cell| self.inline_of(cell)).unwrap_or_default();
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                line.push_str(&format!(" {} |", text.replace('|', "\\|")));
            }
            lines.push(line);
            if at == 0 && has_head {
                lines.push(format!("|{}", " --- |".repeat(columns)));
            }
        }
        self.emit(&lines.join("\n"));
    }

    /// Writes what is in a table and not in a cell, such as its caption.
    fn captions(&mut self, element: &'a Element) {
        for child in self.page.children(element) {
            match child {
                Child::Text(text) => self.paragraph(&mut text.to_owned()),
                Child::Element(child) if is_noise(child) => {}
                Child::Element(child) => match child.tag.as_str() {
                    "thead" | "tbody" | "tfoot" | "tr" => self.captions(child),
                    "td" | "th" if element.tag == "tr" => {}
                    _ => self.blocks(child),
                },
            }
        }
    }

    /// The rows of a table, and whether each is a head, without those of tables in it.
    fn rows(&self, element: &'a Element, rows: &mut Vec<(Vec<&'a Element>, bool)>) {
        for child in self.page.children(element) {
            let Child::Element(child) = child else { continue };
            match child.tag.as_str() {
                "tr" => {
                    let cells = self.page.children(child).filter_map(|cell| match cell {
                        Child::Element(cell) if matches!(cell.tag.as_str(), "td" | "th") => {
                            Some(cell)
                        }
                        _ => None,
                    });
                    let cells: Vec<_> = cells.collect();

                    let is_head = cells.iter().all(|cell| cell.tag == "th");
                    if !cells.is_empty() {
                        rows.push((cells, is_head));
                    }
                }
                "thead" | "tbody" | "tfoot" => self.rows(child, rows),
                _ => {}
            }
        }
    }

    /// What is in an element, as a line of text.
    fn inline_of(&self, element: &'a Element) -> String {
        let mut text = String::new();
        self.inline_children(element, &mut text);
        text.trim().to_owned()
    }

    fn inline_children(&self, element: &'a Element, out: &mut String) {
        for child in self.page.children(element) {
            if out.len() > self.bytes_max {
                return;
            }
            match child {
                Child::Text(text) => push_collapsed(out, text),
                Child::Element(child) if is_noise(child) => {}
                Child::Element(child) => self.inline(child, out),
            }
        }
    }

    fn inline(&self, element: &'a Element, out: &mut String) {
        match element.tag.as_str() {
            "br" => {
                out.truncate(out.trim_end_matches(' ').len());
                out.push('\n');
            }
            "strong" | "b" => self.wrapped(element, "**", out),
            "em" | "i" => self.wrapped(element, "*", out),
            "del" | "s" | "strike" => self.wrapped(element, "~~", out),

            "code" | "kbd" | "samp" => {
                let mut text = String::new();
                self.raw(element, &mut text);
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                if !text.is_empty() {
                    let fence = "`".repeat(longest_run(&text, '`') + 1);
                    let blank = if fence.len() > 1 { " " } else { "" };
                    out.push_str(&format!("{fence}{blank}{text}{blank}{fence}"));
                }
            }
            "img" => {
                let alt = element.attribute("alt").unwrap_or_default();
                let alt = alt.split_whitespace().collect::<Vec<_>>().join(" ");
                if let Some(source) = self.address(element.attribute("src")) {
                    out.push_str(&format!("![{alt}]({source})"));
                }
            }
            "a" => self.link(element, out),
            _ if element.is_block() || matches!(element.tag.as_str(), "td" | "th") => {
                push_collapsed(out, " ");
                self.inline_children(element, out);
                push_collapsed(out, " ");
            }
            _ => self.inline_children(element, out),
        }
    }

    fn link(&self, element: &'a Element, out: &mut String) {
        let mut text = String::new();
        self.inline_children(element, &mut text);
        let (before, after) = (text.starts_with(' '), text.ends_with(' '));
        let text = text.trim().replace('\n', " ");
        let href = self.address(element.attribute("href"));

        if before {
            push_collapsed(out, " ");
        }
        match href {
            Some(href) if !text.is_empty() => out.push_str(&format!("[{text}]({href})")),
            _ => out.push_str(&text),
        }
        if after {
            push_collapsed(out, " ");
        }
    }

    fn wrapped(&self, element: &'a Element, mark: &str, out: &mut String) {
        let mut text = String::new();
        self.inline_children(element, &mut text);
        if text.trim().is_empty() {
            return push_collapsed(out, &text);
        }
        if text.starts_with(' ') {
            push_collapsed(out, " ");
        }
        out.push_str(&format!("{mark}{}{mark}", text.trim()));
        if text.ends_with(' ') {
            out.push(' ');
        }
    }

    /// The text of an element as it is written.
    fn raw(&self, element: &'a Element, out: &mut String) {
        for child in self.page.children(element) {
            match child {
                Child::Text(text) => out.push_str(text),
                Child::Element(child) if child.tag == "br" => out.push('\n'),
                Child::Element(child) => self.raw(child, out),
            }
        }
    }

    /// An address that a reader can go to.
    fn address(&self, written: Option<&str>) -> Option<String> {
        let written = written?.trim();
        if written.is_empty() || written.starts_with('#') {
            return None;
        }
        let url = self.base.join(written).ok()?;
        let is_usable = matches!(url.scheme(), "http" | "https" | "mailto")
            && url.as_str().len() <= HREF_BYTES_MAX;
        is_usable.then(|| url.as_str().replace('(', "%28").replace(')', "%29"))
    }

    fn paragraph(&mut self, text: &mut String) {
        let lines = text.lines().map(|line| {
            let line = line.trim();
            // It would be taken for a heading.
            if line.starts_with('#') { format!("\\{line}") } else { line.to_owned() }
        });
        let lines: Vec<_> = lines.skip_while(String::is_empty).collect();
        let written = lines.join("\n");
        text.clear();
        if !written.trim().is_empty() {
            self.emit(written.trim_end());
        }
    }

    /// Writes a block.
    fn emit(&mut self, text: &str) {
        if self.is_full {
            return;
        }
        if !self.out.is_empty() {
            self.out.push('\n');
            if !self.is_tight {
                self.out.push_str(self.prefix.trim_end());
                self.out.push('\n');
            }
        }
        self.is_tight = false;

        for (at, line) in text.split('\n').enumerate() {
            if at > 0 {
                self.out.push('\n');
            }
            let prefix = self.marker.take();
            let prefix = prefix.as_deref().unwrap_or(&self.prefix);
            self.out.push_str(if line.is_empty() { prefix.trim_end() } else { prefix });
            self.out.push_str(line);
            if self.out.len() > self.bytes_max {
                self.out.truncate(self.out.floor_char_boundary(self.bytes_max));
                self.is_full = true;
                return;
            }
        }
    }
}

/// Whether a cell is a part of a layout, and not of a table.
fn has_layout(page: &Page, cell: &Element) -> bool {
    const OF_LAYOUTS: [&str; 12] =
        ["table", "ul", "ol", "pre", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "form"];
    if !cell.has_blocks {
        return false;
    }
    page.children(cell).any(|child| match child {
        Child::Element(child) => {
            OF_LAYOUTS.contains(&child.tag.as_str()) || has_layout(page, child)
        }
        Child::Text(_) => false,
    })
}

fn language_of(element: &Element) -> Option<&str> {
    let mut classes = element.attribute("class")?.split_ascii_whitespace();
    let named = classes
        .find_map(|class| class.strip_prefix("language-").or_else(|| class.strip_prefix("lang-")));
    named.filter(|name| {
        name.len() <= 20
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-#".contains(&byte))
    })
}

/// Adds a text whose white space is one blank, of which none follows another.
pub(super) fn push_collapsed(out: &mut String, text: &str) {
    for c in text.chars() {
        if !c.is_ascii_whitespace() {
            out.push(c);
        } else if !out.is_empty() && !out.ends_with([' ', '\n']) {
            out.push(' ');
        } else if out.is_empty() {
            // Whether something stands before is for the caller to say.
            out.push(' ');
        }
    }
}

fn longest_run(text: &str, of: char) -> usize {
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if c == of { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

#[cfg(test)]
mod tests;
