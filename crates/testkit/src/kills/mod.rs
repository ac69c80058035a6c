// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kills processes of `openpath run` at random moments while programs work in the view.
//!
//! # Round
//! A tree, and a load in a view of it (`load`), whose output says what is safely on the disk. After
//! a random time the server, the front, the command or all of them get SIGKILL. Then `scene`
//! checks:
//!
//! # Rules
//! R1. No process of the round is left, in any state, after half a minute.
//! R2. The tree is unchanged, bit for bit, including change times.
//! R3. A view in a directory can be compared and run again without an error, and has whole what was
//!     reported as on the disk. It can be discarded, and leaves nothing.
//! R4. The exit status tells how: the front dies by the signal that it or the command got, and
//!     reports when the server is gone.

mod commits;
mod load;
mod scene;
mod states;
mod victim;

pub use commits::commits;

use crate::rng::Rng;
use load::Load;
use scene::Scene;
use std::fmt;
use std::io::{self, BufRead as _, BufReader};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use victim::Victim;

/// How long a load may take to print the awaited lines.
const SLOWLY: Duration = Duration::from_secs(20);

/// The parameters of all rounds.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The command under test.
    pub openpath: PathBuf,
    /// A directory for the trees, which any user may enter.
    pub folder: PathBuf,
    /// How many rounds.
    pub rounds: u64,
    /// Seed of the random choices.
    pub seed: u64,
    /// The longest time that a load works before the kill.
    pub longest: Duration,
}

/// The results of all rounds.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Rounds.
    pub rounds: u64,
    /// Rounds in which the load had ended before the kill.
    pub late: u64,
    /// Rounds with a view in a directory; for commits, interrupted rounds.
    pub kept: u64,
    /// Things reported as on the disk that were checked.
    pub promises: u64,
    /// Faults.
    pub wrong: Vec<String>,
}

/// The choices of a round.
#[derive(Clone, Copy, Debug)]
struct Round {
    number: u64,
    load: Load,
    victim: Victim,
    /// An ordinary user runs the command.
    ordinary: bool,
    /// The changes are in a directory.
    kept: bool,
    /// The kernel uses its writeback cache.
    back: bool,
    /// The kill waits for this many lines of output.
    lines: usize,
    after: Duration,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            number,
            load,
            victim,
            after,
            ..
        } = self;
        let user = if self.ordinary { "a user" } else { "root" };
        let upper = if self.kept { "a directory" } else { "memory" };
        let written = if self.back {
            "written back"
        } else {
            "written at once"
        };
        write!(
            f,
            "round {number}: {victim:?} of {load:?} by {user} over {upper}, {written}, \
                after {after:?}"
        )
    }
}

/// Runs all rounds, and stops at the tenth fault. `tell` receives each round.
///
/// # Errors
/// Those of setting a round up, which needs root.
pub fn storm(plan: &Plan, tell: impl Fn(&str)) -> io::Result<Report> {
    let mut rng = Rng::new(plan.seed);
    let mut report = Report::default();
    let longest = usize::try_from(plan.longest.as_millis()).unwrap_or(usize::MAX);
    for number in 0..plan.rounds {
        let round = Round {
            number,
            load: *rng.pick(&Load::ALL),
            victim: *rng.pick(&Victim::ALL),
            ordinary: !rng.one_in(3),
            kept: !rng.one_in(4),
            back: rng.one_in(2),
            // Some are killed while they are being set up.
            lines: rng.below(9),
            after: Duration::from_millis(rng.below(longest) as u64),
        };
        tell(&round.to_string());
        let wrong = report.wrong.len();
        play(plan, round, &mut report)?;
        for said in &mut report.wrong[wrong..] {
            *said = format!("{round}: {said}");
        }
        report.rounds += 1;
        if report.wrong.len() >= 10 {
            break;
        }
    }
    Ok(report)
}

fn play(plan: &Plan, round: Round, report: &mut Report) -> io::Result<()> {
    let scene = Scene::set(plan, round)?;
    let before = scene.whole()?;
    let mut front = scene.start(round.load.script())?;
    let pid = front.id();
    // Reads the pipe to its end, which comes when no process of the round holds it.
    let output = BufReader::new(front.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
    let (tell, heard) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut promises = Vec::new();
        for line in output.lines().map_while(Result::ok) {
            promises.extend(line.strip_prefix("kept ").map(str::to_owned));
            tell.send(()).ok();
        }
        promises
    });
    let by = Instant::now() + SLOWLY;
    for _ in 0..round.lines.min(round.load.lines()) {
        heard
            .recv_timeout(by.saturating_duration_since(Instant::now()))
            .ok();
    }
    std::thread::sleep(round.after);
    let late = front.try_wait()?.is_some();
    round.victim.kill(pid);
    report.late += u64::from(late);
    let wrong = &mut report.wrong;
    match victim::ended(&mut front)? {
        None => wrong.push("the front did not end".to_owned()),
        Some(status) if !late => wrong.extend(round.victim.fault(status)),
        Some(_) => {}
    }
    let left = victim::left(&scene.mark());
    // A process that is left may hold the pipe.
    let promises = if left.is_empty() {
        reader.join().unwrap_or_default()
    } else {
        Vec::new()
    };
    wrong.extend(left.iter().map(|left| format!("process left: {left}")));
    let after = scene.whole()?;
    if after != before {
        wrong.push(format!("the tree changed:\n{}", differ(&before, &after)));
    }
    if round.kept {
        report.kept += 1;
        report.promises += promises.len() as u64;
        wrong.extend(scene.judge(&promises)?);
    }
    scene.remove()
}

/// The lines that only one of both has.
fn differ(before: &str, after: &str) -> String {
    let only = |one: &str, other: &str, sign: char| -> String {
        let lines = one.lines().filter(|line| !other.contains(line));
        lines
            .take(5)
            .map(|line| format!("{sign} {line}\n"))
            .collect()
    };
    only(before, after, '-') + &only(after, before, '+')
}
