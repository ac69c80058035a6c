// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines a row of results: openpath's value, the value it is compared with, and whether it
//! reaches the bar and the goal that the performance contract (`bars`) has for the row.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;

use crate::bars::{self, Sense};
use crate::stats::{Samples, Spread};

/// With fewer clean windows than this a result means nothing.
pub(crate) const WINDOWS_MIN: usize = 5;

/// Whether a row reaches what the performance contract says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// The goal is reached.
    Goal,
    /// Only the bar is.
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
    pub(crate) spread: Option<Spread>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// The name, as `--filter` sees it.
    pub(crate) name: String,
    /// Our value in `unit`.
    pub(crate) ours: Option<f64>,
    pub(crate) peer: Option<Peer>,
    /// `ns` or the counted unit.
    pub(crate) unit: &'static str,
    /// The quotient that is compared with the bar; None if `ours` itself is.
    pub(crate) ratio: Option<f64>,
    /// Which side of the bar is good.
    pub(crate) sense: Option<Sense>,
    pub(crate) bar: Option<f64>,
    pub(crate) goal: Option<f64>,
    /// Whether the bar holds; None without a bar or a measurement.
    pub(crate) ok: Option<bool>,
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
        Self::blank(name, "").not_measured(why)
    }

    fn not_measured(self, why: &str) -> Self {
        Self {
            unit: "",
            verdict: Verdict::NotMeasured,
            ..self.with_note(why)
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
    pub(crate) fn host_only(name: &str, _: &Samples, label: &str, host: &Samples) -> Self {
        let row = Self {
            windows: host.windows(),
            dropped: host.dropped,
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
        let row = Self {
            windows: ours.windows().min(peer.windows()),
            dropped: ours.dropped + peer.dropped,
            ..Self::blank(name, "ns")
        };
        let (a, b) = match (value(ours), value(peer)) {
            (Some(a), Some(b)) if row.windows >= WINDOWS_MIN => (a, b),
            (Some(_), Some(_)) => {
                let why = format!("only {} clean windows", row.windows);
                return row.not_measured(&why);
            }
            _ => return row.not_measured("the machine left no clean window"),
        };
        let row = Self {
            ours: Some(a),
            ratio: Some(of(a, b)),
            spread: ours.spread(),
            ..row
        };
        let row = row.against(label, b, peer.spread()).judge(of(a, b));
        let wide = |side: &Samples| side.spread().is_some_and(|s| s.p90 > 2.0 * s.p10);
        match wide(ours) || wide(peer) {
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

    pub(crate) fn theirs(&self) -> Option<f64> {
        self.peer.as_ref().map(|peer| peer.value)
    }

    /// Our value, and the other side's.
    pub(crate) fn both(&self) -> Option<(f64, f64)> {
        self.ours.zip(self.theirs())
    }

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
        let (Some(sense), Some(bar), Some(goal)) = (self.sense, self.bar, self.goal) else {
            return self;
        };
        let ok = sense.holds(value, bar);
        self.ok = Some(ok);
        self.verdict = match (ok, sense.holds(value, goal)) {
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

pub(crate) fn write_table(out: &mut dyn Write, rows: &[Row]) -> io::Result<()> {
    const HEADS: [&str; 11] = [
        "row", "ours", "p10..p90", "mad", "against", "p10..p90", "ratio", "bar", "goal", "verdict",
        "windows",
    ];
    let mut lines = vec![HEADS.map(str::to_owned)];
    lines.extend(rows.iter().map(cells));
    let mut widths = [0; HEADS.len()];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let notes = std::iter::once(None).chain(rows.iter().map(|row| row.note.as_deref()));
    for (line, note) in lines.iter().zip(notes) {
        let mut text = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            let _ = write!(text, "{cell:<width$}  ");
        }
        text.push_str(note.unwrap_or_default());
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}

fn cells(row: &Row) -> [String; 11] {
    let limit = |value: Option<f64>| match (value, row.sense) {
        (Some(value), Some(Sense::AtLeast)) => format!(">= {}", short(value)),
        (Some(value), Some(Sense::AtMost)) => format!("<= {}", short(value)),
        _ => String::new(),
    };
    let range = |spread: Option<Spread>| match spread {
        Some(s) => format!("{}..{}", short(s.p10), short(s.p90)),
        None => String::new(),
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
    let (ours, peer) = (row.ours, row.peer.as_ref());
    [
        row.name.clone(),
        ours.map_or(String::new(), |v| format!("{} {}", short(v), row.unit)),
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
mod tests {
    use super::*;

    fn samples(value: f64) -> Samples {
        Samples::new(vec![value; 9], 0)
    }

    /// What the contract (`bars`) requires decides the verdicts of rows, and nothing else.
    #[test]
    fn verdicts_follow_the_contract() {
        let faster =
            |name, ours: f64, peer: &Samples| Row::faster(name, &samples(ours), "tmpfs", peer);
        let growth =
            |ours: f64| Row::growth("big-dir rename", &samples(ours), "10", &samples(100.0));
        let count = |name, value| Row::count(name, "", value);
        let peer = samples(550.0);
        let few = |windows| Samples::new(vec![9.0; windows], 8);
        let cases = [
            (faster("open-close d1", 50.0, &peer), Verdict::Ok),
            (faster("open-close d1", 500.0, &peer), Verdict::Short),
            (growth(101.0), Verdict::Goal),
            (growth(1e6), Verdict::Short),
            (
                Row::missing("failed-open ext4 d1", "no ext4"),
                Verdict::NotMeasured,
            ),
            (faster("stat d1", 1.0, &few(0)), Verdict::NotMeasured),
            (faster("stat d1", 1.0, &few(2)), Verdict::NotMeasured),
            (count("allocations stat d1", 0.0), Verdict::Goal),
            (count("allocations stat d1", 1.0), Verdict::Short),
            (count("locked open-close d1", 2.0), Verdict::Ok),
            (count("getppid", 9e9), Verdict::Info),
        ];
        for (row, verdict) in cases {
            assert_eq!(row.verdict, verdict, "{row:?}");
            let fails = matches!(verdict, Verdict::Short | Verdict::NotMeasured);
            assert_eq!(shortfalls(&[row]).len(), usize::from(fails));
        }
        let row = faster("stat d1", 1.0, &few(2));
        assert_eq!((row.windows, row.dropped), (2, 8));
        let row = faster("open-close d1", 50.0, &peer);
        assert_eq!((row.ok, row.ratio), (Some(true), Some(11.0)));
    }

    #[test]
    fn stalls_do_not_improve_cold_row() {
        let value = |i| if i < 4 { 9_000.0 } else { 450_000.0 };
        let stalled = Samples::new((0..10).map(value).collect(), 0);
        let row = Row::faster_cold("cold open-close d16", &samples(4_000.0), "tmpfs", &stalled);
        assert_eq!((row.ratio, row.verdict), (Some(2.25), Verdict::Short));
    }

    #[test]
    fn spread_windows_are_noted() {
        let wild = Samples::new((1..40).map(f64::from).collect(), 0);
        for (peer, note) in [(wild, Some("unsteady")), (samples(20.0), None)] {
            let row = Row::faster("stat d1", &samples(1.0), "tmpfs", &peer);
            assert_eq!(row.note.as_deref(), note);
        }
    }

    #[test]
    fn json_and_table_have_every_row() {
        let rows = [
            Row::faster("stat d1", &samples(20.0), "tmpfs", &samples(500.0)).with_note("a note"),
            Row::missing("failed-open ext4 d1", "no ext4"),
        ];
        let (mut json, mut table) = (Vec::new(), Vec::new());
        write_json(&mut json, &rows).unwrap();
        write_table(&mut table, &rows).unwrap();
        let [json, table] = [json, table].map(|text| String::from_utf8(text).unwrap());
        let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
        assert_eq!((json.lines().count(), &first["ratio"]), (2, &25.0.into()));
        assert_eq!(
            (&first["ok"], &first["peer"]["label"]),
            (&true.into(), &"tmpfs".into())
        );
        assert!(table.contains("a note") && table.contains("NOT MEASURED"));
        assert_eq!(table.lines().count(), 3);
    }
}
