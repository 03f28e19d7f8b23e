//! HTML to text, by the rules of `web_fetch`.

use super::*;

fn check(html: &str, expected: &str) {
    assert_eq!(to_text(&Page::parse(html)), expected, "{html}");
}

#[test]
fn elements_become_text() {
    check("<head><title>t</title></head><script>x</script><style>x</style>a", "a");
    check("<a href='/x'>a</a> <a href='/y'></a> <a>b</a>", "a (/x) /y b");
    check("a<br>b", "a\nb");
    check("a<p>b</p>c", "a\nb\nc");
    check("<ul><li>a</li><li>b</li></ul>", "- a\n- b");
    check("<table><tr><td>a</td><td>b</td></tr><tr><th>c</th></tr></table>", "a  b\n\nc");
    check("a &amp; b&nbsp;c &lt;d&gt;", "a & b\u{a0}c <d>");
    check("a \t\n b", "a b");
    check("<pre>a\tb\n    c\n\n\n\nd</pre>", "a  b\nc\n\nd");
}

#[test]
fn rule_3_nested_blocks_keep_their_lines() {
    check("<div><p>a</p><p>b</p></div>", "a\n\nb");
    check("<div>\n <p>a</p>\n <p>b</p>\n</div>", "a\n\nb");
}

#[test]
fn marks_in_a_line_are_taken_out() {
    assert_eq!(inline_text("a <strong>b</strong> &amp; &#x27;c&#x27;\n d"), "a b & 'c' d");
    assert_eq!(inline_text("1 < 2"), "1 < 2");
}
