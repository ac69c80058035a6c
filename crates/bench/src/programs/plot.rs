// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of `bench run` as a picture (SVG): a bar for each place and load, by how many times
//! what the bare system takes.

use super::place::Kind;
use crate::chart::{Chart, Group};
use crate::row::Row;

/// What a picture needs of a place.
const SHOWN: [(Kind, &str); 4] = [
    (Kind::Tmpfs, "#8a8f98"),
    (Kind::Run, "#2f7ed8"),
    (Kind::FuseOverlayfs, "#d9822b"),
    (Kind::Proot, "#b5485f"),
];

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
            bars: SHOWN.iter().enumerate().filter_map(time).collect(),
        });
    }
    groups
}

/// Draws rows of [`super::run`].
#[must_use]
pub fn plot(rows: &[Row]) -> String {
    let legend = SHOWN.map(|(kind, colour)| (kind.label(), colour));
    let chart = Chart {
        title: "Programs: times what the bare system takes",
        legend: &legend,
        groups: groups(rows),
    };
    chart.svg()
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
