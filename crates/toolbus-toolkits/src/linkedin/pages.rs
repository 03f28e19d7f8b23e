//! What stands in LinkedIn's pages.

use reqwest::Url;

use crate::html::{Element, Page, text_of};

const NO_JOBS: &str = "No job postings found matching your criteria.";
const NO_DESCRIPTION: &str = "Could not extract the job description: LinkedIn may have blocked the \
                              request or changed the page.";
const NOT_LISTED: &str = "Not listed";

/// The jobs of a page of results.
pub(crate) fn list_jobs(html: &str, base: &Url, limit: usize) -> String {
    let page = Page::parse(html);
    let is_card =
        |element: &Element| element.has_class("base-card") || element.has_class("base-search-card");
    let cards = page.find_all(page.root(), is_card);
    let jobs = cards.into_iter().filter_map(|card| {
        let find = |class: &str| line_of(&page, card, |element| element.has_class(class));
        let title = find("base-search-card__title")?;
        let or_none = |text: Option<String>| text.unwrap_or_else(|| NOT_LISTED.to_owned());
        let posted = line_of(&page, card, |element| element.tag == "time");
        Some(format!(
            "{title}\n   Company: {}\n   Location: {}\n   Posted: {}\n   Salary: {}\n   URL: {}",
            or_none(find("base-search-card__subtitle")),
            or_none(find("job-search-card__location")),
            or_none(posted),
            or_none(find("job-search-card__salary-info")),
            or_none(link_of(&page, card, base))
        ))
    });

    let jobs = jobs.take(limit).enumerate().map(|(at, job)| format!("{}. {job}", at + 1));
    let jobs: Vec<_> = jobs.collect();
    if jobs.is_empty() { NO_JOBS.to_owned() } else { jobs.join("\n\n") }
}

/// What the page of a job says of it.
pub(crate) fn describe_job(html: &str) -> String {
    let page = Page::parse(html);
    let find = |classes: &[&str]| {
        line_of(&page, page.root(), |element| classes.iter().any(|class| element.has_class(class)))
    };
    let known = [
        ("Title", find(&["top-card-layout__title", "topcard__title"])),
        ("Company", find(&["topcard__org-name-link", "topcard__flavor"])),
        ("Location", find(&["topcard__flavor--bullet"])),
    ];

    let is_description = |element: &Element| {
        element.has_class("show-more-less-html__markup") || element.has_class("description__text")
    };
    let description = page.find_all(page.root(), is_description).into_iter().next();
    let description = description.map(|found| text_of(&page, found)).unwrap_or_default();
    if description.is_empty() {
        return NO_DESCRIPTION.to_owned();
    }

    let lines = known.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}", value?)));
    let mut lines: Vec<_> = lines.collect();
    lines.extend([String::new(), "--- Job Description ---".to_owned(), String::new(), description]);
    lines.join("\n").trim_start().to_owned()
}

/// The text of the first such element, in one line.
fn line_of(page: &Page, below: &Element, holds: impl Fn(&Element) -> bool) -> Option<String> {
    let found = page.find_all(below, holds).into_iter().next()?;
    // The address of a link is not a part of it.
    let text = page.plain_text(found);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!line.is_empty()).then_some(line)
}

fn link_of(page: &Page, card: &Element, base: &Url) -> Option<String> {
    let has_link = |element: &Element| element.tag == "a" && element.attribute("href").is_some();
    let links = page.find_all(card, has_link);
    let is_full = |link: &&&Element| link.has_class("base-card__full-link");
    let link = links.iter().find(is_full).or_else(|| links.first())?;
    let mut url = base.join(link.attribute("href")?.trim()).ok()?;
    // What follows tells LinkedIn who sent the reader.
    url.set_query(None);
    matches!(url.scheme(), "http" | "https").then(|| url.to_string())
}
