//! Queries, as they are searched for and kept.

/// A query without punctuation and superfluous spaces, in lower case. Words in camel case keep it,
/// for the index reads them as several words.
pub(crate) fn normalise(query: &str) -> String {
    let words = query.split(|c: char| !c.is_alphanumeric() && !is_mark(c));
    let mut text = String::with_capacity(query.len());
    for word in words.filter(|word| word.chars().any(char::is_alphanumeric)) {
        if !text.is_empty() {
            text.push(' ');
        }
        if is_camel_case(word) {
            text.push_str(word);
        } else {
            text.push_str(&word.to_lowercase());
        }
    }
    text
}

/// Marks that stand within words of some scripts.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{900}'..='\u{dff}' | '\u{200c}' | '\u{200d}')
}

fn is_camel_case(word: &str) -> bool {
    let next = word.chars().skip(1);
    word.chars().zip(next).any(|(one, next)| one.is_lowercase() && next.is_uppercase())
}

#[cfg(test)]
mod tests;
