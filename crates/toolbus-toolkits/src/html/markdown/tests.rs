//! What pages are in markdown.

use super::*;

fn markdown(html: &str) -> String {
    let base = Url::parse("https://example.com/a/b?q").expect("a URL");
    let (text, is_cut) = to_markdown(&Page::parse(html), &base, html.len());
    assert!(!is_cut, "{html}");
    text
}

fn check(html: &str, expected: &str) {
    assert_eq!(markdown(html), expected, "{html}");
}

#[test]
fn blocks_stand_apart() {
    check(
        "<h1>A</h1><p>b  c\n d</p><h2> E <b>f</b></h2>g<hr>h",
        "# A\n\nb c d\n\n## E **f**\n\ng\n\n---\n\nh",
    );
    check("<div><p>a</p><div>b</div></div>c", "a\n\nb\n\nc");
    check("<span>a</span> <em> b </em>c<br>d", "a *b* c\nd");
    check("<blockquote>a<p>b</blockquote>c", "> a\n>\n> b\n\nc");
    check(
        "<pre><code class='hljs language-rust'>fn a() {\n    b\n}\n</code></pre>",
        "```rust\nfn a() {\n    b\n}\n```",
    );
    check("<pre>a ``` b</pre>", "````\na ``` b\n````");
    check("<p>use <code>a`b</code>", "use `` a`b ``");
    check("<p># no heading", "\\# no heading");
    check("<dl><dt>a<dd>b</dl>", "**a**\n\nb");
}

#[test]
fn lists_are_nested() {
    check(
        "<p>x<ul><li>a<li>b<ol start=3><li>c<li>d</ol><li>e</ul>f",
        "x\n\n- a\n- b\n  3. c\n  4. d\n- e\n\nf",
    );
    check("<ul><li><p>a</p><p>b</p></li><li>c</ul>", "- a\n\n  b\n- c");
    check("<ul><li></li><li>a</ul>", "- a");
    check("<ul><li><blockquote>a</blockquote></ul>", "- > a");
}

#[test]
fn tables_are_tables() {
    check(
        "<table><tr><th>A<th>B<tr><td>1|2<td>b<br>c</table>",
        "| A | B |\n| --- | --- |\n| 1\\|2 | b c |",
    );
    check(
        "<table><tbody><tr><td>1<td>2<tr><td>3</table>",
        "|   |   |\n| --- | --- |\n| 1 | 2 |\n| 3 |  |",
    );
    // A layout is none.
    check("<table><tr><td><h1>A</h1><td><ul><li>b</ul></table>", "# A\n\n- b");
    check("<table><tr><td>only<tr><td>one</table>", "only\n\none");
}

#[test]
fn what_stands_beside_cells_and_items_is_kept() {
    check(
        "<table>a<caption>b</caption><tr>c<td>1<td>2</table>",
        "a\n\nb\n\nc\n\n|   |   |\n| --- | --- |\n| 1 | 2 |",
    );
    check("<ul>a<li>b</ul>", "a\n\n- b");
}

proptest::proptest! {
    #[test]
    fn no_text_is_lost(parts in proptest::collection::vec(0..TAGS.len() * 3, 0..80)) {
        let html: String = parts
            .iter()
            .enumerate()
            .map(|(at, part)| match part % 3 {
                0 => format!("<{}>", TAGS[part / 3]),
                1 => format!("</{}>", TAGS[part / 3]),
                _ => format!(" w{at}w "),
            })
            .collect();
        let base = Url::parse("https://example.com/").expect("a URL");
        let page = Page::parse(&html);
        let (text, _) = to_markdown(&page, &base, html.len());
        let plain = super::super::to_text(&page);
        for word in html.split_whitespace().filter(|word| word.starts_with('w')) {
            proptest::prop_assert!(text.contains(word), "{} {}: {}", word, html, text);
            proptest::prop_assert!(plain.contains(word), "{} {}: {}", word, html, plain);
        }
    }
}

const TAGS: [&str; 30] = [
    "div",
    "p",
    "ul",
    "ol",
    "li",
    "table",
    "tr",
    "td",
    "th",
    "tbody",
    "b",
    "em",
    "a href=x",
    "pre",
    "code",
    "blockquote",
    "h1",
    "h3",
    "br",
    "hr",
    "dl",
    "dt",
    "dd",
    "span",
    "x-y",
    "caption",
    "main",
    "head",
    "body",
    "section",
];

#[test]
fn links_lead_somewhere() {
    check("<a href='/x'>a</a>", "[a](https://example.com/x)");
    check("<a href='c?(d)'> a <b>b</b></a>c", "[a **b**](https://example.com/a/c?%28d%29)c");
    check("<a href='x'><div><h3>A</h3> b</div></a>", "[A b](https://example.com/a/x)");
    check("<a href='javascript:alert(1)'>a</a> <a href='#top'>b</a> <a>c</a>", "a b c");
    check(
        "<img src='i.png' alt='a\nb'><img src='data:image/png;base64,AAAA' alt=x>",
        "![a b](https://example.com/a/i.png)",
    );
    check("<a href='x'></a>a", "a");
}

#[test]
fn noise_is_removed() {
    let noise = "<nav>n</nav><header>n</header><footer>n</footer><aside>n</aside><form>n</form>\
                 <figure>n</figure><picture>n</picture><svg>n</svg><iframe>n</iframe>\
                 <script>n</script><style>n</style><noscript>n</noscript><template>n</template>\
                 <div role=navigation>n</div><div role=' Banner '>n</div>\
                 <div role=contentinfo>n</div><div hidden>n</div>\
                 <div style='color: red; DISPLAY : none'>n</div><!-- n -->";
    check(&format!("<title>n</title>{noise}<main>a<x-y>b</x-y></main>{noise}"), "ab");
}

#[test]
fn bombs_are_bounded() {
    let check = |html: &str| {
        let base =
            Url::parse(&format!("https://example.com/{}", "x".repeat(1_500))).expect("a URL");
        let (text, _) = to_markdown(&Page::parse(html), &base, html.len());
        let max = html.len().saturating_mul(GROWTH_MAX).max(WRITTEN_BYTES_MIN);
        assert!(text.len() <= max, "{} of {}", text.len(), html.len());
    };
    check(&"<blockquote>x<br>".repeat(15_000));
    check(&"<ul><li>x<p>y".repeat(15_000));
    check(&"<a href=x>y</a><p>".repeat(15_000));
    check(&format!("<p>{}", "<a href=x>y</a>".repeat(15_000)));
    check(&format!("<table><tr>{}<tr><td>x</table>", "<td>y".repeat(50)));
    check(&format!("<table>{}</table>", "<tr><td>x<td>y".repeat(15_000)));
    check(&"<table><tr><td>x<td>".repeat(8_000));
    check(&"<b><i><a href=x>".repeat(15_000));
}
