//! A page in plain text, by the rules of the system whose `web_fetch` this is.

use super::markdown::push_collapsed;
use super::tree::{Child, Element, Page};

/// Elements of which nothing is shown.
const DROPPED: [&str; 4] = ["script", "style", "head", "template"];
/// Elements that stand on lines of their own.
const BLOCKS: [&str; 10] = ["p", "div", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote"];

/// The text of a page.
pub(crate) fn to_text(page: &Page) -> String {
    text_of(page, page.root())
}

/// The text of an element.
pub(crate) fn text_of(page: &Page, element: &Element) -> String {
    let mut out = String::new();
    write(page, element, &mut out);
    tidy(&out)
}

/// A text that may have marks and entities in it, in one line and without them.
pub(crate) fn inline_text(html: &str) -> String {
    let page = Page::parse(html);
    to_text(&page).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn write(page: &Page, element: &Element, out: &mut String) {
    for child in page.children(element) {
        match child {
            Child::Text(text) => push_collapsed(out, text),
            Child::Element(child) => write_element(page, child, out),
        }
    }
}

fn write_element(page: &Page, element: &Element, out: &mut String) {
    match element.tag.as_str() {
        tag if DROPPED.contains(&tag) => {}
        "br" => out.push('\n'),
        "a" => {
            let mut text = String::new();
            write(page, element, &mut text);
            let href = element.attribute("href").unwrap_or_default().trim();
            match (text.trim().is_empty(), href.is_empty()) {
                (_, true) => out.push_str(&text),
                (true, false) => out.push_str(href),
                (false, false) => out.push_str(&format!("{text} ({href})")),
            }
        }

        "pre" => raw(page, element, out),
        "li" => {
            out.push_str("\n- ");
            write(page, element, out);
        }
        "td" | "th" => {
            write(page, element, out);
            out.push('\t');
        }
        tag if BLOCKS.contains(&tag) => {
            out.push('\n');
            write(page, element, out);
            out.push('\n');
        }
        _ => write(page, element, out),
    }
}

fn raw(page: &Page, element: &Element, out: &mut String) {
    out.push('\n');
    let mut waiting: Vec<Child<'_>> = page.children(element).collect();
    waiting.reverse();
    while let Some(child) = waiting.pop() {
        match child {
            Child::Text(text) => out.push_str(text),
            Child::Element(child) if child.tag == "br" => out.push('\n'),
            Child::Element(child) => {
                let mut below: Vec<_> = page.children(child).collect();
                below.reverse();
                waiting.extend(below);
            }
        }
    }
    out.push('\n');
}

/// Tabs to two blanks, many blanks to two, many line breaks to two, and nothing around it.
fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut breaks = 0;
    for line in text.replace('\t', "  ").split('\n') {
        let line = line.trim();
        if line.is_empty() {
            breaks += 1;
            continue;
        }
        if !out.is_empty() {
            out.push_str(if breaks > 0 { "\n\n" } else { "\n" });
        }
        breaks = 0;

        let mut blanks = 0;
        for c in line.chars() {
            blanks = if c == ' ' { blanks + 1 } else { 0 };
            if blanks <= 2 {
                out.push(c);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
