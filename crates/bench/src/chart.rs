// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws ratios of times as SVG: a bar for each, in groups.
//!
//! # Rules
//! R1. The axis is logarithmic: twice as fast and half as fast are equally far from 1.
//! R2. Text has the colour of its surroundings, and the colours of bars are readable on light and
//!     dark backgrounds.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::error::{Context, Error};

/// Where the bars begin, and where the longest ends.
const LEFT: f64 = 150.0;
const RIGHT: f64 = 660.0;
/// The height of a bar, and the space between groups.
const BAR: f64 = 14.0;
const GAP: f64 = 16.0;
const TOP: f64 = 40.0;
/// The start of the axis.
const LEAST: f64 = 0.5;

/// Whether and where a command draws its results.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Picture {
    /// Draw the results here, as SVG; the page shows a picture beside it.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl Picture {
    /// A page's reference to the picture.
    pub(crate) fn shown(&self, text: &str) -> String {
        let name = self.svg.as_ref().and_then(|svg| svg.file_name());
        let name = name.map(|name| name.to_string_lossy());
        name.map_or(String::new(), |name| format!("\n\n![{text}]({name})"))
    }

    /// Writes the picture, if requested.
    pub(crate) fn draw(&self, svg: impl FnOnce() -> String) -> Result<(), Error> {
        match &self.svg {
            Some(file) => std::fs::write(file, svg()).setup(&file.display().to_string()),
            None => Ok(()),
        }
    }
}

pub(crate) struct Chart<const N: usize> {
    pub(crate) title: &'static str,
    /// The meaning of bars, and their colours.
    pub(crate) legend: [(&'static str, &'static str); N],
    /// Named groups of ratios: one for each entry of the legend, or none.
    pub(crate) groups: Vec<(String, [Option<f64>; N])>,
}

impl<const N: usize> Chart<N> {
    pub(crate) fn svg(&self) -> String {
        let all = || self.groups.iter().flat_map(|(_, bars)| bars).flatten();
        let most = all().fold(2.0, |most: f64, times| most.max(*times));
        // Rounds up to a power of two, with space for a number.
        let most = most.log2().ceil().exp2() * 2.0;
        let x = |times: f64| {
            let along = (times.max(LEAST) / LEAST).ln() / (most / LEAST).ln();
            LEFT + along * (RIGHT - LEFT)
        };
        let end = TOP + all().count() as f64 * BAR + self.groups.len() as f64 * GAP;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 700 {:.0}\" \
             font-family=\"sans-serif\" font-size=\"11\" fill=\"currentColor\">\n\
             <title>{}</title>\n",
            end + 30.0,
            self.title
        );
        self.draw_legend(&mut svg);
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
        self.draw_bars(&mut svg, x);
        svg.push_str("</svg>\n");
        svg
    }

    fn draw_legend(&self, svg: &mut String) {
        let each = (RIGHT - LEFT) / self.legend.len() as f64;
        for (n, (label, colour)) in self.legend.iter().enumerate() {
            let at = LEFT + n as f64 * each;
            let _ = writeln!(
                svg,
                "<rect x=\"{at:.0}\" y=\"10\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
                 <text x=\"{:.0}\" y=\"20\">{label}</text>",
                at + 17.0
            );
        }
    }

    /// Draws each bar from 1 to its ratio; `x` maps a ratio to a position.
    fn draw_bars(&self, svg: &mut String, x: impl Fn(f64) -> f64) {
        let mut y = TOP + GAP / 2.0;
        for (name, bars) in &self.groups {
            let middle = y + bars.iter().flatten().count() as f64 * BAR / 2.0 + 4.0;
            let _ = writeln!(
                svg,
                "<text x=\"{:.0}\" y=\"{middle:.1}\" text-anchor=\"end\">{name}</text>",
                LEFT - 8.0
            );
            let bars = bars.iter().zip(self.legend);
            for (times, (_, colour)) in bars.filter_map(|(times, of)| Some(((*times)?, of))) {
                let (from, to) = (x(1.0).min(x(times)), x(1.0).max(x(times)));
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
    }
}
