//! Arguments of `search` and `discover`.

use clap::Args;
use toolbus_discovery::Category;

/// `search`.
#[derive(Debug, Args)]
pub struct SearchOptions {
    /// The task, in words
    #[arg(value_name = "QUERY", required = true, num_args = 1..)]
    pub query: Vec<String>,

    /// At most so many, from 1 to 50
    #[arg(long, visible_alias = "top-k", value_name = "NUMBER", default_value_t = 5)]
    pub limit: usize,

    /// Tools of this server alone
    #[arg(long, value_name = "SERVER")]
    pub server: Option<String>,

    /// Tools of this category alone, such as version-control
    #[arg(long, value_name = "CATEGORY", value_parser = parse_category)]
    pub category: Option<Category>,

    /// Tools of at least this score, from 0 to 1
    #[arg(long, value_name = "SCORE")]
    pub min_score: Option<f64>,

    /// Show what each score is made of
    #[arg(long)]
    pub explain: bool,

    /// Print JSON, with the schema of each tool
    #[arg(long)]
    pub json: bool,
}

/// `discover`.
#[derive(Debug, Args)]
pub struct DiscoverOptions {
    /// This server alone
    #[arg(value_name = "SERVER")]
    pub server: Option<String>,

    /// Tools of this category alone, such as version-control
    #[arg(long, value_name = "CATEGORY", value_parser = parse_category)]
    pub category: Option<Category>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn parse_category(text: &str) -> Result<Category, String> {
    let known = Category::ALL.map(Category::as_str).join(", ");
    Category::parse(text).ok_or_else(|| format!("it is one of {known}"))
}
