//! A server in one line, as agents see it in their index.

/// Most names of one line; of the others only their number.
const NAMES_MAX: usize = 10;

/// The line for tools of these names, in the wording of the C# bridge.
pub(crate) fn summary<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let count = names.len();
    if count == 0 {
        return "No tools available.".to_owned();
    }
    let shown: Vec<&str> = names.take(NAMES_MAX).collect();
    let more = match count - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("Provides {count} tool(s): {}{more}.", shown.join(", "))
}

#[cfg(test)]
mod tests;
