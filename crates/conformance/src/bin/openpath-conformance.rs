// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs all cases on the running kernel: `openpath-conformance [--json] [--place PLACE]...
//! [FILTER]`, as root.
//!
//! PLACE is `ext4`, `tmpfs` (both if none is given) or a directory; FILTER is a part of the names
//! of cases. It exits with 0 if nothing is wrong, with 1 if something is, with 2 if it could not
//! run.

use openpath_conformance::kernel::{Kernel, Place};
use openpath_conformance::{Report, run, suite};
use std::process::ExitCode;

struct Options {
    json: bool,
    places: Vec<Place>,
    filter: String,
}

const USAGE: &str = "openpath-conformance [--json] [--place ext4|tmpfs|DIRECTORY]... [FILTER]";

fn options() -> Option<Options> {
    let mut options = Options {
        json: false,
        places: Vec::new(),
        filter: String::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => options.json = true,
            "--place" => options.places.push(match words.next()?.as_str() {
                "ext4" => Place::Ext4,
                "tmpfs" => Place::Tmpfs,
                directory => Place::Directory(directory.into()),
            }),
            word if word.starts_with('-') => return None,
            _ => options.filter = word,
        }
    }
    if options.places.is_empty() {
        options.places = vec![Place::Ext4, Place::Tmpfs];
    }
    Some(options)
}

/// Runs the cases in one place, on a thread whose mount namespace ends with it.
fn ask(place: &Place, filter: &str) -> Result<Report, String> {
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut kernel = Kernel::new(place)?;
            Ok(run(&mut kernel, &suite(), filter))
        });
        asking.join().unwrap_or_else(|_| Err("died".to_owned()))
    })
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let mut clean = true;
    for place in &options.places {
        match ask(place, &options.filter) {
            Ok(report) => {
                clean &= report.is_clean();
                let told = if options.json {
                    report.json() + "\n"
                } else {
                    report.text()
                };
                print!("{told}");
            }
            Err(why) => {
                eprintln!("{place:?}: {why}");
                return ExitCode::from(2);
            }
        }
    }
    ExitCode::from(u8::from(!clean))
}
