//! Charts as SVG, made on the server, so that they need no script.
//!
//! Three kinds of chart are needed: stacked bars, steps, and lanes. A plotting library brings fonts, rasters and
//! styles in attributes that the page's content policy refuses; these charts are a template, and colours are classes
//! of the stylesheet. Each chart has its figures in words too.

use super::layout::text;
use crate::model::Timestamp;
use crate::telemetry::{plain_line, plain_lines};
use maud::{Markup, html};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 160.0;
const FOOT: f64 = 18.0;
const HEAD: f64 = 20.0;
const LANE: f64 = 22.0;
const LANE_NAMES: f64 = 130.0;

/// A bar of stacked parts, with marks above it.
#[derive(Default)]
pub(super) struct ChartBar {
    /// Class and value of each part, from below.
    pub(super) parts: Vec<(&'static str, u32)>,
    pub(super) marks: Vec<&'static str>,
    pub(super) title: String,
}

pub(super) fn stacked_bars(label: &str, bars: &[ChartBar], limit: u32) -> Markup {
    let total = |bar: &ChartBar| bar.parts.iter().map(|(_, value)| value).sum::<u32>();
    let top = f64::from(bars.iter().map(total).max().unwrap_or(0).max(limit).max(1)) * 1.15;
    let y = |value: f64| HEIGHT - value / top * HEIGHT;
    let step = WIDTH / ratio(bars.len().max(1));
    html! {
        svg.chart viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(plain_line(label)) {
            @for (index, bar) in bars.iter().enumerate() {
                @let x = ratio(index) * step;
                @let stacked = stack(&bar.parts);
                g {
                    title { (plain_lines(&bar.title)) }
                    @for (class, from, to) in stacked {
                        rect class=(class) x=(round(x)) width=(round(step * 0.9)) y=(round(y(to)))
                            height=(round(y(from) - y(to))) {}
                    }
                    @for (rank, class) in bar.marks.iter().enumerate() {
                        circle class=(class) cx=(round(x + step / 2.0)) cy=(6.0 + 8.0 * ratio(rank)) r="3" {}
                    }
                }
            }
            line.limit x1="0" x2=(WIDTH) y1=(round(y(f64::from(limit)))) y2=(round(y(f64::from(limit)))) {}
        }
    }
}

/// Returns class, lower and upper edge of each part.
fn stack(parts: &[(&'static str, u32)]) -> Vec<(&'static str, f64, f64)> {
    let mut at = 0.0;
    let edge = |(class, value): &(&'static str, u32)| {
        let from = at;
        at += f64::from(*value);
        (*class, from, at)
    };
    parts.iter().map(edge).filter(|(_, from, to)| to > from).collect()
}

pub(super) struct ChartMark {
    pub(super) at: Timestamp,
    pub(super) value: i64,
    pub(super) class: &'static str,
    pub(super) title: String,
}

/// A quantity over time. A quantity holds until the next one, the last until `now`.
pub(super) fn steps(label: &str, points: &[(Timestamp, i64)], marks: &[ChartMark], now: Timestamp) -> Markup {
    let Some((begin, _)) = points.first() else { return html! {} };
    let values = points.iter().map(|(_, value)| *value).chain(marks.iter().map(|mark| mark.value));
    let (low, high) = values.fold((0, 1), |(low, high), value| (low.min(value), high.max(value)));
    let (inner, span) = (HEIGHT - FOOT, millis(now.0 - begin.0).max(1.0));
    let x = |at: Timestamp| round((millis(at.0 - begin.0) / span).clamp(0.0, 1.0) * (WIDTH - 8.0) + 4.0);
    // Above the steps is room for the label of the highest quantity.
    let y =
        |value: i64| round(HEAD + (inner - HEAD - 6.0) * (1.0 - millis(value - low) / millis(high - low)));
    let mut path = String::new();
    for (index, (at, value)) in points.iter().enumerate() {
        path.push_str(&match index {
            0 => format!("M{} {}", x(*at), y(*value)),
            _ => format!("H{}V{}", x(*at), y(*value)),
        });
    }
    path.push_str(&format!("H{}", x(now)));
    html! {
        svg.chart viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(plain_line(label)) {
            line.axis x1="0" x2=(WIDTH) y1=(y(low)) y2=(y(low)) {}
            path.steps d=(path) {}
            @for mark in marks {
                circle class=(mark.class) cx=(x(mark.at)) cy=(y(mark.value)) r="4" { title { (plain_line(&mark.title)) } }
            }
            text x="4" y=(HEIGHT - 4.0) { (short_time(*begin)) }
            text.end x=(WIDTH - 4.0) y=(HEIGHT - 4.0) { "now" }
            text x="4" y="12" { "up to " (high) }
        }
    }
}

pub(super) struct LaneSpan {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    pub(super) class: &'static str,
    pub(super) title: String,
}

pub(super) fn lanes(
    label: &str,
    lanes: &[(String, Vec<LaneSpan>)],
    from: Timestamp,
    to: Timestamp,
) -> Markup {
    let height = LANE * ratio(lanes.len()) + FOOT;
    let span = millis(to.0 - from.0).max(1.0);
    let x =
        |at: Timestamp| LANE_NAMES + (millis(at.0 - from.0) / span).clamp(0.0, 1.0) * (WIDTH - LANE_NAMES);
    html! {
        svg.chart viewBox={ "0 0 " (WIDTH) " " (round(height)) } role="img" aria-label=(plain_line(label)) {
            @for (index, (name, spans)) in lanes.iter().enumerate() {
                @let y = LANE * ratio(index);
                text x="0" y=(y + 15.0) { (plain_line(name)) }
                line.axis x1=(LANE_NAMES) x2=(WIDTH) y1=(y + LANE - 2.0) y2=(y + LANE - 2.0) {}
                @for one in spans {
                    rect class=(one.class) x=(round(x(one.from))) y=(y + 3.0) height=(LANE - 7.0)
                        width=(round((x(one.to) - x(one.from)).max(2.0))) { title { (plain_line(&one.title)) } }
                }
            }
            text x=(LANE_NAMES) y=(round(height - 4.0)) { (short_time(from)) }
            text.end x=(WIDTH - 4.0) y=(round(height - 4.0)) { "now" }
        }
    }
}

pub(super) fn legend(entries: &[(&str, &str)]) -> Markup {
    html! { ul.legend { @for (class, meaning) in entries { li { span class=(class) {} (text(meaning)) } } } }
}

fn short_time(at: Timestamp) -> String {
    at.to_datetime().format("%m-%d %H:%M UTC").to_string()
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[expect(clippy::cast_precision_loss, reason = "a chart has fewer than 2^52 pixels, units and milliseconds")]
fn millis(value: i64) -> f64 {
    value as f64
}

#[expect(clippy::cast_precision_loss, reason = "a chart has fewer than 2^52 parts")]
fn ratio(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_holds_until_the_next_one() {
        let points = [(Timestamp(0), 10), (Timestamp(50), 5)];
        let mark = ChartMark { at: Timestamp(50), value: 5, class: "mark-ours", title: "<sale>".into() };
        let drawn = steps("quantity", &points, &[mark], Timestamp(100)).into_string();
        assert!(drawn.contains("d=\"M4 20H320V78H636\""), "{drawn}");
        assert!(drawn.contains("&lt;sale&gt;") && drawn.contains("aria-label=\"quantity\""), "{drawn}");
        assert_eq!(steps("none", &[], &[], Timestamp(0)).into_string(), "");
    }

    #[test]
    fn parts_are_stacked_and_empty_ones_left_out() {
        assert_eq!(stack(&[("a", 2), ("b", 0), ("c", 1)]), [("a", 0.0, 2.0), ("c", 2.0, 3.0)]);
        let bars =
            [ChartBar { parts: vec![("a", 3)], marks: vec!["m"], title: "t".into() }, ChartBar::default()];
        let drawn = stacked_bars("calls", &bars, 6).into_string();
        assert_eq!(drawn.matches("<rect").count(), 1, "{drawn}");
        assert!(drawn.contains("<circle class=\"m\"") && drawn.contains("class=\"limit\""), "{drawn}");
    }
}
