// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of `bench wasi` as a picture (SVG): a bar for each call and way of wasmtime's, by how
//! many times what ours takes.

use super::peer::Way;
use crate::chart::{Chart, Group};
use crate::row::Row;

/// What a picture needs of a way.
const SHOWN: [(Way, &str); 2] = [(Way::Pool, "#b5485f"), (Way::Blocking, "#d9822b")];

/// The calls that were measured, each with the ways' times of ours.
fn groups(rows: &[Row]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in rows {
        let (Some((name, label)), Some(ratio)) = (row.name.split_once(", "), row.ratio) else {
            continue;
        };
        let Some(way) = SHOWN.iter().position(|(way, _)| way.label() == label) else {
            continue;
        };
        let name = name.strip_prefix("wasi ").unwrap_or(name);
        match groups.last_mut().filter(|last| last.name == name) {
            Some(last) => last.bars.push((way, ratio)),
            None => groups.push(Group {
                name,
                bars: vec![(way, ratio)],
            }),
        }
    }
    groups
}

/// Draws rows of [`super::run`].
#[must_use]
pub fn plot(rows: &[Row]) -> String {
    let legend = SHOWN.map(|(way, colour)| (way.label(), colour));
    let chart = Chart {
        title: "Calls of a guest under wasmtime-wasi: times what openpath takes",
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
    fn each_way_that_was_measured_has_a_bar() {
        let of = |ns: f64| Samples::new(vec![ns; 9], 0);
        let rows = [
            Row::faster("wasi stat d1, default", &of(10.0), "default", &of(300.0)),
            Row::faster("wasi stat d1, blocking", &of(10.0), "blocking", &of(80.0)),
            Row::missing("wasi stat d5, default", "nothing measured it"),
            Row::count("wasi guests bytes", "B", 2.0),
        ];
        let svg = plot(&rows);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains(">stat d1<") && !svg.contains(">stat d5<"));
        assert!(svg.contains(">30.00<") && svg.contains(">8.00<"));
        // The legend has one each.
        assert_eq!(svg.matches("<rect ").count(), SHOWN.len() + 2);
        assert!(plot(&[]).contains("<svg "));
    }
}
