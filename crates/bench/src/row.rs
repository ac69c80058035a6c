// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines a row of results: openpath's value, the value it is compared with, and whether it
//! reaches the bar and the goal that the performance contract (`bars`) has for the row.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;

use crate::bars::{self, Bar, Sense};
use crate::stats::{Samples, Spread};

/// With fewer clean windows than this a result means nothing.
pub(crate) const WINDOWS_MIN: usize = 5;

/// Whether a row reaches what the performance contract says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// The goal is reached.
    Goal,
    /// The bar is reached.
    Ok,
    /// The bar is missed.
    Short,
    /// This run could not measure it.
    NotMeasured,
    /// The contract has no bar for it.
    Info,
}

/// The other side of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Peer {
    /// Its name: `tmpfs`, `ext4`, `ours d1`.
    pub(crate) label: String,
    /// Its median, in the row's unit.
    pub(crate) value: f64,
    /// Its spread.
    pub(crate) spread: Option<Spread>,
}

/// One result.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// The name, as `--filter` sees it.
    pub(crate) name: String,
    /// Our value in `unit`.
    pub(crate) ours: Option<f64>,
    /// The other side.
    pub(crate) peer: Option<Peer>,
    /// `ns` or the counted unit.
    pub(crate) unit: &'static str,
    /// The quotient that is compared with the bar; None if `ours` itself is.
    pub(crate) ratio: Option<f64>,
    /// Which side of the bar is good.
    pub(crate) sense: Option<Sense>,
    /// The bar.
    pub(crate) bar: Option<f64>,
    /// The goal.
    pub(crate) goal: Option<f64>,
    /// Whether the bar holds; None without a bar or a measurement.
    pub(crate) ok: Option<bool>,
    /// The verdict.
    pub(crate) verdict: Verdict,
    /// The spread of ours.
    pub(crate) spread: Option<Spread>,
    /// Clean windows of the side with fewer.
    pub(crate) windows: usize,
    /// Dropped windows of both sides together.
    pub(crate) dropped: usize,
    /// A remark the reader needs.
    pub(crate) note: Option<String>,
}

impl Row {
    /// A row that could not be measured.
    pub(crate) fn missing(name: &str, why: &str) -> Self {
        Self {
            verdict: Verdict::NotMeasured,
            note: Some(why.to_owned()),
            ..Self::blank(name, "")
        }
    }

    /// A count, judged by itself.
    pub(crate) fn count(name: &str, unit: &'static str, value: f64) -> Self {
        let row = Self {
            ours: Some(value),
            ..Self::blank(name, unit)
        };
        row.judge(value)
    }

    /// A time against a peer's: the quotient is peer / ours, and more is better.
    pub(crate) fn faster(name: &str, ours: &Samples, label: &str, peer: &Samples) -> Self {
        Self::quotient(name, (ours, label, peer), Samples::median, |a, b| b / a)
    }

    /// The same by the tenth percentiles, for cold runs: stalls below this machine, which no clock
    /// shows, make the median of either side many times too long.
    pub(crate) fn faster_cold(name: &str, ours: &Samples, label: &str, peer: &Samples) -> Self {
        Self::quotient(name, (ours, label, peer), Samples::low, |a, b| b / a).with_note("by p10")
    }

    /// A cost against a cheaper operation's: the quotient is ours / peer, and less is better.
    pub(crate) fn growth(name: &str, ours: &Samples, label: &str, peer: &Samples) -> Self {
        Self::quotient(name, (ours, label, peer), Samples::median, |a, b| a / b)
    }

    /// The host's time of an operation without a counterpart of ours.
    pub(crate) fn host_only(name: &str, label: &str, host: &Samples) -> Self {
        let row = Self {
            windows: host.windows(),
            dropped: host.dropped(),
            ..Self::blank(name, "ns")
        };
        match host.median() {
            Some(value) => row.against(label, value, host.spread()),
            None => row,
        }
    }

    /// A row of the statistic `value` of both sides' windows, and their quotient `of`.
    fn quotient(
        name: &str,
        (ours, label, peer): (&Samples, &str, &Samples),
        value: fn(&Samples) -> Option<f64>,
        of: fn(f64, f64) -> f64,
    ) -> Self {
        let windows = ours.windows().min(peer.windows());
        let dropped = ours.dropped() + peer.dropped();
        let missing = |why: &str| Self {
            windows,
            dropped,
            ..Self::missing(name, why)
        };
        let (Some(a), Some(b)) = (value(ours), value(peer)) else {
            return missing("the machine left no clean window");
        };
        if windows < WINDOWS_MIN {
            return missing(&format!("only {windows} clean windows"));
        }
        let row = Self {
            ours: Some(a),
            ratio: Some(of(a, b)),
            spread: ours.spread(),
            windows,
            dropped,
            ..Self::blank(name, "ns")
        };
        let row = row.against(label, b, peer.spread()).judge(of(a, b));
        let wide = |spread: Option<Spread>| spread.is_some_and(|s| s.p90 > 2.0 * s.p10);
        match wide(ours.spread()) || wide(peer.spread()) {
            true => row.with_note("unsteady"),
            false => row,
        }
    }

    /// Names the other side and its value.
    pub(crate) fn against(mut self, label: &str, value: f64, spread: Option<Spread>) -> Self {
        self.peer = Some(Peer {
            label: label.to_owned(),
            value,
            spread,
        });
        self
    }

    /// The row of this name.
    pub(crate) fn named<'a>(rows: &'a [Row], name: &str) -> Option<&'a Row> {
        rows.iter().find(|row| row.name == name)
    }

    /// The other side's value.
    pub(crate) fn theirs(&self) -> Option<f64> {
        self.peer.as_ref().map(|peer| peer.value)
    }

    /// Our value, and the other side's.
    pub(crate) fn both(&self) -> Option<(f64, f64)> {
        self.ours.zip(self.theirs())
    }

    /// Adds a remark.
    pub(crate) fn with_note(mut self, note: &str) -> Self {
        let note = match self.note.take() {
            Some(had) => format!("{had}; {note}"),
            None => note.to_owned(),
        };
        self.note = Some(note);
        self
    }

    fn blank(name: &str, unit: &'static str) -> Self {
        let bar = bars::find(name);
        Self {
            name: name.to_owned(),
            ours: None,
            peer: None,
            unit,
            ratio: None,
            sense: bar.map(|b| b.sense),
            bar: bar.map(|b| b.bar),
            goal: bar.map(|b| b.goal),
            ok: None,
            verdict: Verdict::Info,
            spread: None,
            windows: 0,
            dropped: 0,
            note: None,
        }
    }

    fn judge(mut self, value: f64) -> Self {
        let Some(Bar {
            sense, bar, goal, ..
        }) = bars::find(&self.name)
        else {
            return self;
        };
        let ok = sense.holds(value, *bar);
        self.ok = Some(ok);
        self.verdict = match (ok, sense.holds(value, *goal)) {
            (false, _) => Verdict::Short,
            (true, false) => Verdict::Ok,
            (true, true) => Verdict::Goal,
        };
        self
    }
}

/// The rows that make a check fail.
pub(crate) fn shortfalls(rows: &[Row]) -> Vec<&Row> {
    let fails = |row: &&Row| matches!(row.verdict, Verdict::Short | Verdict::NotMeasured);
    rows.iter().filter(fails).collect()
}

/// Writes one JSON object a row.
pub(crate) fn write_json(out: &mut dyn Write, rows: &[Row]) -> io::Result<()> {
    for row in rows {
        serde_json::to_writer(&mut *out, row)?;
        writeln!(out)?;
    }
    Ok(())
}

/// Writes the table.
pub(crate) fn write_table(out: &mut dyn Write, rows: &[Row]) -> io::Result<()> {
    let heads = [
        "row", "ours", "p10..p90", "mad", "against", "p10..p90", "ratio", "bar", "goal",
    ];
    let mut lines = vec![heads.map(str::to_owned).to_vec()];
    lines[0].extend(["verdict".to_owned(), "windows".to_owned()]);
    lines.extend(rows.iter().map(cells));
    let width = |i: usize| {
        lines
            .iter()
            .map(|line| line[i].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    for (n, line) in lines.iter().enumerate() {
        let mut text = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            let _ = write!(text, "{cell:<width$}  ");
        }
        if let Some(note) = n.checked_sub(1).and_then(|i| rows[i].note.as_deref()) {
            text.push_str(note);
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}

fn cells(row: &Row) -> Vec<String> {
    let limit = |value: Option<f64>| match (value, row.sense) {
        (Some(value), Some(Sense::AtLeast)) => format!(">= {}", short(value)),
        (Some(value), Some(Sense::AtMost)) => format!("<= {}", short(value)),
        _ => String::new(),
    };
    let range = |spread: Option<Spread>| {
        spread.map_or(String::new(), |s| {
            format!("{}..{}", short(s.p10), short(s.p90))
        })
    };
    let verdict = match row.verdict {
        Verdict::Goal => "goal",
        Verdict::Ok => "ok",
        Verdict::Short => "SHORT",
        Verdict::NotMeasured => "NOT MEASURED",
        Verdict::Info => "",
    };
    let windows = match row.windows + row.dropped {
        0 => String::new(),
        _ => format!("{} (-{})", row.windows, row.dropped),
    };
    let peer = row.peer.as_ref();
    vec![
        row.name.clone(),
        row.ours
            .map_or(String::new(), |v| format!("{} {}", short(v), row.unit)),
        range(row.spread),
        row.spread.map_or(String::new(), |s| short(s.mad)),
        peer.map_or(String::new(), |p| format!("{} {}", p.label, short(p.value))),
        range(peer.and_then(|p| p.spread)),
        row.ratio.map_or(String::new(), |v| format!("{v:.2}")),
        limit(row.bar),
        limit(row.goal),
        verdict.to_owned(),
        windows,
    ]
}

/// Rounds to three significant digits.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v.fract() == 0.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests;
