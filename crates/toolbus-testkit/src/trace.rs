//! What the trace of a call must be, span by span, held against what a collector received.

use anyhow::{Context as _, ensure};

use crate::otlp::Span;

#[cfg(test)]
mod tests;

/// The kind of a span, as OTLP numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Work within a program.
    Internal = 1,
    /// A request that is answered.
    Server = 2,
    /// A request to somebody else.
    Client = 3,
    /// A message that is published.
    Producer = 4,
    /// A message that is handled.
    Consumer = 5,
}

/// A span that a trace must have.
#[derive(Debug, Clone)]
pub struct Expected {
    kind: Kind,
    service: &'static str,
    name: &'static str,
    parent: Parent,
    attributes: Vec<(&'static str, &'static str)>,
    is_error: bool,
}

#[derive(Debug, Clone, Copy)]
enum Parent {
    None,
    /// A span of somebody who exports nothing.
    Stranger(&'static str),
    /// The one at this place in the list of those that are expected.
    Listed(usize),
}

impl Expected {
    /// The root of a trace: a span of this service that ends well.
    #[must_use]
    pub fn new(kind: Kind, service: &'static str, name: &'static str) -> Self {
        let parent = Parent::None;
        let attributes = Vec::new();
        Self { kind, service, name, parent, attributes, is_error: false }
    }

    /// A message that the service publishes to a topic of this template.
    #[must_use]
    pub fn publish(service: &'static str, template: &'static str) -> Self {
        Self::new(Kind::Producer, service, "publish")
            .with("messaging.system", "rabbitmq")
            .with("messaging.operation.type", "send")
            .with("messaging.destination.template", template)
    }

    /// A message of a topic of this template that the service handles and acknowledges.
    #[must_use]
    pub fn process(service: &'static str, template: &'static str) -> Self {
        Self::new(Kind::Consumer, service, "process")
            .with("messaging.system", "rabbitmq")
            .with("messaging.result", "ack")
            .with("messaging.destination.template", template)
    }

    /// The same as a child of the one at this place, counted from 0, in the list.
    #[must_use]
    pub fn below(self, place: usize) -> Self {
        Self { parent: Parent::Listed(place), ..self }
    }

    /// The same as a child of a span that is not in the trace, by its id.
    #[must_use]
    pub fn below_stranger(self, span_id: &'static str) -> Self {
        Self { parent: Parent::Stranger(span_id), ..self }
    }

    /// The same with this attribute, whose value is told as text. Others may be there too.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.attributes.push((name, value));
        self
    }

    /// The same, ending in an error of this type.
    #[must_use]
    pub fn failing(self, error: &'static str) -> Self {
        Self { is_error: true, ..self }.with("error.type", error)
    }

    fn is_like(&self, span: &Span) -> bool {
        let has = |(name, value): &(&str, &str)| {
            span.attributes.get(*name).is_some_and(|own| own == value)
        };
        (span.kind, &*span.service, &*span.name) == (self.kind as u64, self.service, self.name)
            && span.is_error == self.is_error
            && self.attributes.iter().all(has)
    }
}

/// The spans of a trace in the order in which they are expected: it has just these, each below its
/// parent. Siblings that are alike cannot be told apart, and are refused.
///
/// # Errors
/// When one is missing, is there twice, or was not expected; the error shows them.
pub fn check<'a>(trace: &'a [Span], expected: &[Expected]) -> anyhow::Result<Vec<&'a Span>> {
    let mut found: Vec<&Span> = Vec::new();
    for wanted in expected {
        let parent = match wanted.parent {
            Parent::None => None,
            Parent::Stranger(id) => Some(id),
            Parent::Listed(place) => {
                let parent = found.get(place).context("a parent is listed before its children")?;
                Some(&*parent.span_id)
            }
        };
        let is_it = |span: &&Span| span.parent_id.as_deref() == parent && wanted.is_like(span);
        let mut those = trace.iter().filter(is_it);
        let one = those.next();
        let one = one.with_context(|| format!("no {wanted:?} below {parent:?}: {trace:#?}"))?;
        ensure!(those.next().is_none(), "two {wanted:?} below {parent:?}: {trace:#?}");
        found.push(one);
    }

    let is_expected = |span: &&Span| found.iter().any(|one| one.span_id == span.span_id);
    let others: Vec<_> = trace.iter().filter(|span| !is_expected(span)).collect();
    ensure!(others.is_empty(), "not expected: {others:#?}");
    Ok(found)
}
