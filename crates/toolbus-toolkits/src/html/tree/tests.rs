//! What is made of tags, whole and broken.

use toolbus_testkit::memory::peak_bytes;

use super::*;

/// The tree in one line: `div(p("x"))`.
fn show(page: &Page, element: &Element) -> String {
    let children: Vec<_> = page
        .children(element)
        .map(|child| match child {
            Child::Element(element) => show(page, element),
            Child::Text(text) => format!("{text:?}"),
        })
        .collect();
    format!("{}({})", element.tag, children.join(" "))
}

fn check(html: &str, expected: &str) {
    let page = Page::parse(html);
    assert_eq!(show(&page, page.root()), format!("html({expected})"), "{html}");
}

#[test]
fn ends_that_people_leave_out_are_implied() {
    check("<p>a<p>b", r#"p("a") p("b")"#);
    check("<p>a<b>b<div>c</div>", r#"p("a" b("b")) div("c")"#);
    check("<ul><li>a<li>b<ul><li>c</ul><li>d</ul>", r#"ul(li("a") li("b" ul(li("c"))) li("d"))"#);
    check("<dl><dt>a<dd>b<dt>c</dl>", r#"dl(dt("a") dd("b") dt("c"))"#);
    check(
        "<table><tr><td>a<td>b<tr><td>c</table>d",
        r#"table(tr(td("a") td("b")) tr(td("c"))) "d""#,
    );
    check(
        "<table><tr><td><table><tr><td>x</table>y<td>z</table>",
        r#"table(tr(td(table(tr(td("x"))) "y") td("z")))"#,
    );
    check("a<br>b<img>c</br>", r#""a" br() "b" img() "c" br()"#);
    check("<div/>a", r#"div("a")"#);
    check("<svg><path/><title/>x</svg>y", r#"svg(path() title() "x") "y""#);
}

#[test]
fn broken_tags_lose_no_text() {
    check("</div>a</p>b", r#""a" "b""#);
    check("<div><b>a</div>b</b>c", r#"div(b("a")) "b" "c""#);
    check("<div><table><tr><td>a</div>b</td></tr></table>c", r#"div(table(tr(td("a" "b"))) "c")"#);
    check("<html><html><body class=x><body>a</body></html>b", r#""a" "b""#);
    check("a < b & c &amp; d &lt;e", r#""a < b & c & d <e""#);
}

#[test]
fn the_head_ends_where_it_must() {
    for html in [
        "<html><head><title>T</title></head><body><p>a</p></body></html>",
        "<head><title>T</title><body><p>a</p>",
        "<head><title>T</title><link><p>a</p>",
        "<title>\n T </title><p>a",
    ] {
        let page = Page::parse(html);
        assert_eq!(page.title.as_deref(), Some("T"), "{html}");
        let shown = show(&page, page.root());
        assert!(shown.ends_with(r#"p("a"))"#), "{shown}");
    }
}

#[test]
fn titles_are_the_first_and_decoded() {
    let title = |html: &str| Page::parse(html).title;
    assert_eq!(
        title("<title>A &amp; B\n\t&eacute;</title><title>C</title>").as_deref(),
        Some("A & B é")
    );
    assert_eq!(title("<svg><title>icon</title></svg><title>T</title>").as_deref(), Some("T"));
    assert_eq!(title("<title> </title>"), None);
    assert_eq!(title("<title>&lt;b&gt; <b>x</b></title>").as_deref(), Some("<b> <b>x</b>"));
    assert!(
        title(&format!("<title>{}</title>", "é".repeat(5_000))).expect("a title").len() <= 1_024
    );
}

#[test]
fn scripts_and_their_like_are_passed_over() {
    check("a<script>if (a < b) '</p>' <b>x</b></script>b", r#""a" "b""#);
    check(
        "a<style>p{}</style><noscript><p>x</p></noscript><textarea><b>x</textarea>b",
        r#""a" "b""#,
    );
    check("a<!-- <script> -->b", r#""a" "b""#);
    check("a<script>never closed <p>x", r#""a""#);
}

#[test]
fn attributes_are_those_that_are_kept_and_the_first_of_a_name() {
    let page = Page::parse("</p id=no href=no><a id=x HREF=a&amp;b href=c class hidden src=''>x");
    let Some(Child::Element(link)) = page.children(page.root()).next() else { panic!("a link") };
    let attributes: Vec<_> =
        link.attributes.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(attributes, [("href", "a&b"), ("class", ""), ("hidden", ""), ("src", "")]);
}

/// Those that are not kept are not held either.
#[test]
fn attributes_of_one_tag_take_no_memory() {
    let names: String = (0..150_000).map(|at| format!("a{at}=x ")).collect();
    let html = format!("<p {names}class=c>x");
    drop(names);
    let before = peak_bytes();
    let page = Page::parse(&html);
    let grown = peak_bytes() - before;
    assert!(grown <= 8 << 20, "{} MiB more", grown >> 20);
    let Some(Child::Element(paragraph)) = page.children(page.root()).next() else { panic!("one") };
    assert_eq!(paragraph.attribute("class"), Some("c"));
}

#[test]
fn bombs_are_bounded() {
    let check = |html: String, what: &str| {
        let started = std::time::Instant::now();
        let page = Page::parse(&html);
        assert!(started.elapsed() < std::time::Duration::from_secs(20), "{what}");
        page
    };

    let mut depth = 0;
    let page = check(format!("{}x", "<div>".repeat(100_000)), "deep");
    let mut at = page.root();
    while let Some(Child::Element(child)) = page.children(at).next() {
        (at, depth) = (child, depth + 1);
    }
    assert_eq!(depth, DEPTH_MAX);

    let page = check("<b><p>".repeat(100_000), "formatting");
    assert!(!page.nodes.is_empty());
    let page = check("<p>x".repeat(110_000), "nodes");
    assert!(page.is_cut && page.nodes.len() <= NODES_MAX + 2);

    let names: String = (0..100_000).map(|at| format!("a{at}=x ")).collect();
    let page = check(format!("<p {names}>x"), "attributes");
    assert!(!page.is_cut);
    let page = check(format!("<a href=\"{}\">x</a>", "y".repeat(1_000_000)), "a long attribute");
    let Some(Child::Element(link)) = page.children(page.root()).next() else { panic!("a link") };
    assert_eq!(link.attribute("href").map(str::len), Some(ATTRIBUTE_BYTES_MAX));
    check("</div>".repeat(100_000), "ends");
    check(format!("<{}>x", "t".repeat(1_000_000)), "a long name");
    check(format!("<!--{}", "-".repeat(1_000_000)), "a comment");
    check("&amp".repeat(500_000), "entities");
}
