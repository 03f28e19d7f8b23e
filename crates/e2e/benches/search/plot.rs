//! Quality against latency, drawn as SVG.

use std::fmt::Write as _;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// A way to search, and what was measured of it.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) name: String,
    /// Median of a search.
    pub(super) milliseconds: f64,
    /// nDCG@10.
    pub(super) quality: f64,
}

/// Draws points: latency to the right on a logarithmic scale, quality upwards from 0 to 1.
pub(super) fn draw(title: &str, points: &[Point]) -> String {
    let latencies = points.iter().map(|point| point.milliseconds.max(1e-6).log10());
    let (first, last) = latencies.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), at| {
        (least.min(at), most.max(at))
    });
    let first = if first.is_finite() { first.floor() } else { -1.0 };
    let last = if last.is_finite() { last.ceil().max(first + 1.0) } else { 1.0 };
    let x = |log: f64| LEFT + (log - first) / (last - first) * (WIDTH - LEFT - RIGHT);
    let y = |quality: f64| HEIGHT - BOTTOM - quality.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM);

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    text(&mut svg, WIDTH / 2.0, 20.0, "middle", title);
    for tenth in (0..=10).step_by(2) {
        let quality = f64::from(tenth) / 10.0;
        line(&mut svg, (LEFT, y(quality)), (WIDTH - RIGHT, y(quality)));
        text(&mut svg, LEFT - 8.0, y(quality) + 4.0, "end", &format!("{quality:.1}"));
    }
    for power in first as i32..=last as i32 {
        let at = x(f64::from(power));
        line(&mut svg, (at, TOP), (at, HEIGHT - BOTTOM));
        let label = format!("{} ms", 10_f64.powi(power));
        text(&mut svg, at, HEIGHT - BOTTOM + 18.0, "middle", &label);
    }
    text(&mut svg, WIDTH / 2.0, HEIGHT - 10.0, "middle", "median of a search");
    text(&mut svg, LEFT, TOP - 8.0, "end", "nDCG@10");

    for point in points {
        let (at, up) = (x(point.milliseconds.max(1e-6).log10()), y(point.quality));
        writeln!(svg, "<circle cx=\"{at:.1}\" cy=\"{up:.1}\" r=\"5\" fill=\"#1f6feb\"/>")
            .expect("a string takes every text");
        // Towards the middle, so that no label leaves the picture.
        let (anchor, shift) = if at > WIDTH / 2.0 { ("end", -10.0) } else { ("start", 10.0) };
        let label = format!("{}: {:.2}", point.name, point.quality);
        text(&mut svg, at + shift, up - 8.0, anchor, &label);
    }
    svg.push_str("</svg>\n");
    svg
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64)) {
    writeln!(
        svg,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#dddddd\"/>",
        from.0, from.1, to.0, to.1
    )
    .expect("a string takes every text");
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>")
        .expect("a string takes every text");
}
