//! What a body says that it is.

/// A media type and its charset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContentType {
    /// The type, such as `text/html`, in lower case. Empty where nothing is said.
    pub media_type: String,
    /// The label of the charset.
    pub charset: Option<String>,
}

impl ContentType {
    /// Reads the value of a header. What cannot be read is taken for not said.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut parts = text.split(';');
        let media_type = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let is_type = media_type.len() <= 128
            && media_type.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');

        let charset = parts.find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            let value = value.trim().trim_matches(['"', '\'']).trim();
            (name.trim().eq_ignore_ascii_case("charset") && !value.is_empty())
                .then(|| value.chars().take(40).collect())
        });
        Self { media_type: if is_type { media_type } else { String::new() }, charset }
    }

    /// Whether it is a page.
    #[must_use]
    pub fn is_html(&self) -> bool {
        self.media_type == "text/html" || self.media_type.starts_with("application/xhtml")
    }

    /// Whether it is JSON, by its type or by the suffix of it.
    #[must_use]
    pub fn is_json(&self) -> bool {
        matches!(self.media_type.as_str(), "application/json" | "text/json")
            || self.media_type.ends_with("+json")
    }

    /// Whether it is a text, as far as its type says. One that says nothing may be.
    #[must_use]
    pub fn may_be_text(&self) -> bool {
        let media_type = self.media_type.as_str();

        self.is_html()
            || self.is_json()
            || media_type.is_empty()
            || media_type.starts_with("text/")
            || media_type.ends_with("+xml")
            || media_type.ends_with("+yaml")
            || matches!(
                media_type,
                "application/xml"
                    | "application/yaml"
                    | "application/x-yaml"
                    | "application/toml"
                    | "application/javascript"
                    | "application/ecmascript"
                    | "application/x-javascript"
                    | "application/x-ndjson"
                    | "application/jsonl"
                    | "application/sql"
                    | "application/graphql"
                    | "application/x-sh"
                    | "application/x-www-form-urlencoded"
                    | "message/rfc822"
            )
    }
}

#[cfg(test)]
mod tests;
