//! Topic patterns: `*` stands for exactly one segment, `#` for any number of them, none included.

use std::fmt;

use toolbus_wire::topic;

/// A pattern that topics are matched against, AMQP's binding key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TopicPattern(Box<str>);

impl TopicPattern {
    /// Checks `text` and takes it as a pattern. `*` and `#` count only as whole segments.
    ///
    /// # Errors
    /// When it is empty or longer than 255 bytes.
    pub fn parse(text: impl AsRef<str>) -> Result<Self, topic::Error> {
        // The limits are those of a topic, since AMQP carries both as a routing key.
        topic::Topic::parse(text).map(|topic| Self(topic.as_str().into()))
    }

    /// The text of the pattern.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a topic falls under this pattern.
    #[must_use]
    pub fn matches(&self, topic: &str) -> bool {
        matches_topic(&self.0, topic)
    }
}

impl From<topic::Topic> for TopicPattern {
    /// The pattern that only this topic falls under (as long as it holds no `*` or `#`).
    fn from(topic: topic::Topic) -> Self {
        Self(topic.as_str().into())
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TopicPattern({})", &self.0)
    }
}

/// Greedy matching with one place to come back to: the last `#`. Linear in the topic for each `#`,
/// so a hostile pattern of 255 bytes costs thousands of steps at most, never exponentially many.
fn matches_topic(pattern: &str, topic: &str) -> bool {
    let mut pattern = Some(pattern);
    let mut topic = Some(topic);
    let mut come_back = None;

    loop {
        match (first_segment(pattern), first_segment(topic)) {
            (None, None) => return true,
            (Some("#"), _) => {
                pattern = after_first_segment(pattern);
                come_back = Some((pattern, topic));
                continue;
            }
            (Some(want), Some(have)) if want == "*" || want == have => {
                (pattern, topic) = (after_first_segment(pattern), after_first_segment(topic));
                continue;
            }
            _ => {}
        }

        // No match from here: let the last `#` swallow one segment more.
        match come_back {
            Some((after_hash, at)) if at.is_some() => {
                (pattern, topic) = (after_hash, after_first_segment(at));
                come_back = Some((after_hash, topic));
            }
            _ => return false,
        }
    }
}

fn first_segment(text: Option<&str>) -> Option<&str> {
    text.map(|text| text.split_once('.').map_or(text, |(head, _)| head))
}

fn after_first_segment(text: Option<&str>) -> Option<&str> {
    text.and_then(|text| text.split_once('.')).map(|(_, tail)| tail)
}

#[cfg(test)]
mod tests;
