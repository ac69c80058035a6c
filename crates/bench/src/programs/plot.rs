// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of `bench run` as a picture (SVG): a bar for each place and load, by how many times
//! what the bare system takes.
//!
//! # Rules
//! R1. The axis is logarithmic: twice as fast and half as fast are equally far from 1.
//! R2. Text has the colour of what surrounds the picture, and bars have one that is read on both
//!     light and dark grounds.

use std::fmt::Write as _;

use super::place::Kind;
use crate::row::Row;

/// Where the bars begin, and where they end at the latest.
const LEFT: f64 = 150.0;
const RIGHT: f64 = 660.0;
/// A bar, and what is between the loads.
const BAR: f64 = 14.0;
const GAP: f64 = 16.0;
/// Room above, for the legend.
const TOP: f64 = 40.0;
/// What the axis begins with, in times of the bare system.
const LEAST: f64 = 0.5;

/// What a picture needs of a place.
const SHOWN: [(Kind, &str); 4] = [
    (Kind::Tmpfs, "#8a8f98"),
    (Kind::Run, "#2f7ed8"),
    (Kind::FuseOverlayfs, "#d9822b"),
    (Kind::Proot, "#b5485f"),
];

/// A load, with how many times the bare system's time each place took.
struct Group<'a> {
    name: &'a str,
    times: Vec<(usize, f64)>,
}

/// The loads that were measured. A load's own row is set against the bare system, and those named
/// after it against another place.
fn groups(rows: &[Row]) -> Vec<Group<'_>> {
    let measured = |row: &Row| Some((row.ours?, row.peer.as_ref()?.value));
    let mut groups = Vec::new();
    for row in rows.iter().filter(|row| !row.name.contains(", ")) {
        let Some((ours, native)) = measured(row) else {
            continue;
        };
        let time = |(at, (kind, _)): (usize, &(Kind, &str))| {
            let value = match kind {
                Kind::Run => ours,
                kind => {
                    let name = format!("{}, {}", row.name, kind.label());
                    measured(rows.iter().find(|row| row.name == name)?)?.1
                }
            };
            Some((at, value / native))
        };
        groups.push(Group {
            name: row.name.strip_prefix("run ").unwrap_or(&row.name),
            times: SHOWN.iter().enumerate().filter_map(time).collect(),
        });
    }
    groups
}

/// Draws rows of [`super::run`].
#[must_use]
pub fn plot(rows: &[Row]) -> String {
    let groups = groups(rows);
    let all = groups.iter().flat_map(|group| &group.times);
    let most = all.fold(2.0, |most: f64, (_, times)| most.max(*times));
    // To the next power of two, and room for a number.
    let most = most.log2().ceil().exp2() * 2.0;
    let x = |times: f64| {
        let along = (times.max(LEAST) / LEAST).ln() / (most / LEAST).ln();
        LEFT + along * (RIGHT - LEFT)
    };
    let bars: usize = groups.iter().map(|group| group.times.len()).sum();
    let end = TOP + bars as f64 * BAR + groups.len() as f64 * GAP;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 700 {:.0}\" \
         font-family=\"sans-serif\" font-size=\"11\" fill=\"currentColor\">\n\
         <title>Programs: times what the bare system takes</title>\n",
        end + 30.0
    );
    for (n, (kind, colour)) in SHOWN.iter().enumerate() {
        let at = LEFT + n as f64 * 130.0;
        let label = kind.label();
        let _ = writeln!(
            svg,
            "<rect x=\"{at:.0}\" y=\"10\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
             <text x=\"{:.0}\" y=\"20\">{label}</text>",
            at + 17.0
        );
    }
    let mut tick = LEAST;
    while tick < most {
        let at = x(tick);
        let heavier = if tick == 1.0 { "1" } else { "0.25" };
        let _ = writeln!(
            svg,
            "<path d=\"M{at:.1} {TOP}V{end:.0}\" stroke=\"currentColor\" \
             stroke-opacity=\"{heavier}\"/>\
             <text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{tick}x</text>",
            end + 15.0
        );
        tick *= 2.0;
    }
    let mut y = TOP + GAP / 2.0;
    for group in &groups {
        let middle = y + group.times.len() as f64 * BAR / 2.0 + 4.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            group.name
        );
        for (place, times) in &group.times {
            let (_, colour) = SHOWN[*place];
            let (from, to) = (x(1.0).min(x(*times)), x(1.0).max(x(*times)));
            let _ = writeln!(
                svg,
                "<rect x=\"{from:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.0}\" \
                 fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{:.1}\">{times:.2}</text>",
                (to - from).max(1.0),
                BAR - 2.0,
                to + 4.0,
                y + BAR - 4.0
            );
            y += BAR;
        }
        y += GAP;
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Samples;

    #[test]
    fn each_place_that_was_measured_has_a_bar() {
        let of = |ns: f64| Samples::new(vec![ns; 9], 0);
        let rows = [
            Row::growth("run tar", &of(30.0), "native", &of(10.0)),
            Row::faster("run tar, fuse-overlayfs", &of(30.0), "x", &of(80.0)),
            Row::missing("run tar, proot", "it is not here"),
            Row::missing("run find", "nothing measured it"),
            Row::count("run geometric mean, proot", "x", 2.0),
        ];
        let svg = plot(&rows);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains(">tar<") && !svg.contains(">find<"));
        assert!(svg.contains(">3.00<") && svg.contains(">8.00<"));
        // The legend has one each.
        assert_eq!(svg.matches("<rect ").count(), SHOWN.len() + 2);
        assert!(plot(&[]).contains("<svg "));
    }
}
