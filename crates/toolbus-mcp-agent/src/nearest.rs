//! The names that are nearest to one that is not there, for hints.

/// Most names of one hint.
pub const NAMES_MAX: usize = 10;
/// Most names that are compared, and the longest that is compared with them, in bytes.
const COMPARED_MAX: usize = 10_000;
const LENGTH_MAX: usize = 64;

/// At most [`NAMES_MAX`] of the names, the nearest first; of equally near ones in their order.
pub fn nearest_names<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = loose_form(wanted);
    let mut near: Vec<(usize, &str)> = names
        .take(COMPARED_MAX)
        .map(|name| match name.len().max(wanted.len()) {
            0..=LENGTH_MAX => (strsim::damerau_levenshtein(&wanted, &loose_form(name)), name),
            length => (length, name),
        })
        .collect();

    near.sort_by_key(|(distance, _)| *distance);
    near.truncate(NAMES_MAX);
    near.into_iter().map(|(_, name)| name).collect()
}

/// A name without what models get wrong: case, and what stands between words.
pub fn loose_form(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The only one of `items` that `is_it`; `None` when there are none or several.
pub fn only_match<T>(mut items: impl Iterator<Item = T>, is_it: impl Fn(&T) -> bool) -> Option<T> {
    let found = items.find(|item| is_it(item))?;
    if items.any(|item| is_it(&item)) { None } else { Some(found) }
}

#[cfg(test)]
mod tests;
