//! A server in one line, as agents see it in their index.

/// Names that are told; of the others only their number.
const NAMES_MAX: usize = 10;

/// The line for tools of these names, in the wording of the C# bridge.
pub(crate) fn summary<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let count = names.len();
    if count == 0 {
        return "No tools available.".to_owned();
    }
    let told: Vec<&str> = names.take(NAMES_MAX).collect();
    let more = match count - told.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("Provides {count} tool(s): {}{more}.", told.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(count: usize, expected: &str) {
        let names: Vec<String> = (1..=count).map(|number| format!("t{number}")).collect();
        assert_eq!(summary(names.iter().map(String::as_str)), expected);
    }

    #[test]
    fn none_some_and_many() {
        check(0, "No tools available.");
        check(2, "Provides 2 tool(s): t1, t2.");
        check(10, "Provides 10 tool(s): t1, t2, t3, t4, t5, t6, t7, t8, t9, t10.");
        check(12, "Provides 12 tool(s): t1, t2, t3, t4, t5, t6, t7, t8, t9, t10 and 2 more.");
    }
}
