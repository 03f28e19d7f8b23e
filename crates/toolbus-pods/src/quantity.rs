//! Quantities as Kubernetes writes them, such as `256Mi`, `2G` or `1500m`.

/// What the endings of quantities multiply by; the longest that fits counts.
const SUFFIXES: [(&str, u64); 10] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
];

/// A quantity as a whole number, rounded down. `None` where it is written in another way than with
/// digits, a point, and an ending.
pub(crate) fn whole_number(text: &str) -> Option<u64> {
    let suffix = SUFFIXES.iter().find(|(suffix, _)| text.ends_with(suffix));
    let (suffix, factor) = suffix.copied().unwrap_or(("", 1));
    let number: f64 = text.strip_suffix(suffix)?.parse().ok()?;
    (number >= 0.0).then_some((number * factor as f64) as u64)
}

#[cfg(test)]
mod tests;
