//! Finds elements of a page by their classes.

use super::tree::{Child, Element, Page};

impl Page {
    /// Returns the text below an element, without its tags.
    pub(crate) fn plain_text(&self, element: &Element) -> String {
        let mut text = String::new();
        for child in self.children(element) {
            match child {
                Child::Text(part) => text.push_str(part),
                Child::Element(child) => {
                    text.push_str(&self.plain_text(child));
                    text.push(' ');
                }
            }
        }
        text
    }

    /// Finds the outermost elements below an element for which `holds` is true, in their order.
    pub(crate) fn find_all<'a>(
        &'a self,
        below: &'a Element,
        holds: impl Fn(&Element) -> bool,
    ) -> Vec<&'a Element> {
        let mut found = Vec::new();
        let mut waiting = vec![below];
        while let Some(element) = waiting.pop() {
            if holds(element) {
                found.push(element);
                continue;
            }
            let children = self.children(element).filter_map(|child| match child {
                Child::Element(element) => Some(element),
                Child::Text(_) => None,
            });
            let mut children: Vec<_> = children.collect();
            children.reverse();
            waiting.extend(children);
        }
        found
    }
}

impl Element {
    /// Returns whether the element has a class.
    pub(crate) fn has_class(&self, class: &str) -> bool {
        self.attribute("class").is_some_and(|all| all.split_ascii_whitespace().any(|c| c == class))
    }
}
