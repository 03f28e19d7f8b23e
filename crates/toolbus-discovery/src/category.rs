//! Categories: what a tool is about.

/// What a tool is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Category {
    /// Repositories, branches, reviews.
    VersionControl,
    /// Clouds, clusters, machines.
    Infrastructure,
    /// Metrics, logs, alerts.
    Monitoring,
    /// Messages between people or programs.
    Messaging,
    /// Databases.
    Databases,
    /// Builds and deployments.
    CiCd,
    /// Code, files, scripts.
    Development,
    /// Mail, calendars, meetings.
    Communication,
    /// Anything else.
    Custom,
}

/// Words of a server's name or of tags, and the category that they stand for. The first category
/// of which a word is there counts.
const WORDS: &[(Category, &[&str])] = &[
    (Category::CiCd, &["ci", "cicd", "jenkins", "circleci", "argocd", "buildkite", "deploy"]),
    (Category::VersionControl, &["git", "github", "gitlab", "bitbucket", "svn", "mercurial"]),
    (
        Category::Monitoring,
        &["monitoring", "grafana", "prometheus", "datadog", "sentry", "newrelic", "logs", "alerts"],
    ),
    (
        Category::Databases,
        &["database", "databases", "sql", "postgres", "postgresql", "mysql", "sqlite", "mongodb"],
    ),
    (Category::Databases, &["redis", "elasticsearch", "bigquery", "snowflake", "supabase"]),
    (
        Category::Infrastructure,
        &["infrastructure", "aws", "azure", "gcp", "kubernetes", "k8s", "docker", "terraform"],
    ),
    (Category::Messaging, &["messaging", "slack", "discord", "telegram", "teams", "rabbitmq"]),
    (
        Category::Communication,
        &["communication", "gmail", "email", "mail", "calendar", "zoom", "outlook", "meeting"],
    ),
    (
        Category::Development,
        &["development", "script", "code", "files", "filesystem", "bash", "shell", "jira"],
    ),
];

impl Category {
    /// Every category.
    pub const ALL: [Self; 9] = [
        Self::VersionControl,
        Self::Infrastructure,
        Self::Monitoring,
        Self::Messaging,
        Self::Databases,
        Self::CiCd,
        Self::Development,
        Self::Communication,
        Self::Custom,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::VersionControl => "version-control",
            Self::Infrastructure => "infrastructure",
            Self::Monitoring => "monitoring",
            Self::Messaging => "messaging",
            Self::Databases => "databases",
            Self::CiCd => "ci-cd",
            Self::Development => "development",
            Self::Communication => "communication",
            Self::Custom => "custom",
        }
    }

    /// The category of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.as_str() == name)
    }

    /// What a tool of this server with these tags is probably about: a tag that is the name of a
    /// category counts first, then known words of the server's name and of the tags.
    #[must_use]
    pub fn guess(server: &str, tags: &[String]) -> Self {
        if let Some(category) = tags.iter().find_map(|tag| Self::parse(tag)) {
            return category;
        }

        let texts = std::iter::once(server).chain(tags.iter().map(String::as_str));
        let words: Vec<String> = texts
            .flat_map(|text| text.split(|c: char| !c.is_alphanumeric()))
            .map(str::to_lowercase)
            .collect();
        let has = |known: &&str| words.iter().any(|word| word == known);
        let found = WORDS.iter().find(|(_, known)| known.iter().any(has));
        found.map_or(Self::Custom, |(category, _)| *category)
    }
}

#[cfg(test)]
mod tests;
