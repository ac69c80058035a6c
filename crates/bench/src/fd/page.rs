// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the page of results makes of the rows: the bitmaps as a matrix, the others as a table.

use std::fmt::Write as _;

use super::OPEN;
use super::maps::{GROWTH, Way, row_name};
use super::pattern::Pattern;
use crate::row::{Row, Verdict};

/// The rows that the matrix does not hold, but for those that nobody asks for and that this
/// machine cannot measure.
pub fn others(rows: &[Row]) -> Vec<Row> {
    rows.iter()
        .filter(|row| row.name == GROWTH || !row.name.starts_with("fd "))
        .filter(|row| row.ours.is_some() || row.verdict != Verdict::Info)
        .cloned()
        .collect()
}

/// Ways across, patterns and sizes down; a line without a measurement is left out.
pub fn matrix(rows: &[Row]) -> String {
    let mut text = String::from("| pattern | open |");
    for way in Way::ALL {
        let _ = write!(text, " {} |", way.label());
    }
    text.push_str("\n|---|---|");
    text.push_str(&"---|".repeat(Way::ALL.len()));
    text.push('\n');
    for pattern in Pattern::ALL {
        for open in OPEN {
            let of = |way| {
                let name = row_name(pattern, open, way);
                rows.iter().find(|row| row.name == name)
            };
            let cell = |way| match way {
                Way::Ours => of(Way::Linux).and_then(|row| row.ours),
                _ => of(way).and_then(|row| row.peer.as_ref().map(|peer| peer.value)),
            };
            if Way::ALL.into_iter().all(|way| cell(way).is_none()) {
                continue;
            }
            let _ = write!(text, "| {} | {} |", pattern.name(), open.name);
            for way in Way::ALL {
                let value = cell(way).map_or(String::new(), |ns| format!("{ns:.1}"));
                let _ = write!(text, " {value} |");
            }
            text.push('\n');
        }
    }
    text
}
