// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a worker of the oracle: a process of its own that runs its share of the cases on both
//! sides, and reports differences shrunk.
//!
//! # Rules
//! * A worker gets its job as one line of JSON and answers in lines of JSON on its standard output.
//! * Before each case it writes the case's number to its state file, so that its parent knows the
//!   case on which it died or hangs.
//! * Of similar divergences only the first is shrunk and reported; the others are counted.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use openpath_abi::Errno;
use serde::{Deserialize, Serialize};

use crate::case::{self, Case, Divergence, Snapshots, Trace};
use crate::exhaustive::{self, Set};
use crate::golden::{self, Expect, Fact};
use crate::random;
use crate::shrink;
use crate::sides::{Against, Checked, Sides};
use crate::skips::{self, Counts};

/// A layer of the oracle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// Facts with their answers.
    Golden,
    /// All short sequences.
    Exhaustive,
    /// Random cases.
    Random,
    /// Random cases about mounts and namespaces.
    Mounts,
}

/// The job of a worker: the cases `from`, `from + step` ... below `count`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The layer.
    pub part: Part,
    /// What is compared with the host.
    pub against: Against,
    /// Seed of the first random case.
    pub seed: u64,
    /// First case.
    pub from: u64,
    /// The distance of two cases.
    pub step: u64,
    /// The end of the cases.
    pub count: u64,
    /// Different divergences after which it stops.
    pub reports_max: usize,
    /// Seconds after which it stops.
    pub seconds_max: u64,
    /// The file for the number of the current case.
    pub state: PathBuf,
}

/// A message of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Said {
    /// A divergence.
    Report(Report),
    /// It is done.
    Done(Summary),
    /// It failed.
    Failed(String),
}

/// A divergence, shrunk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The origin of the case.
    pub origin: String,
    /// Its kind: of divergences with the same signature one is reported.
    pub signature: String,
    /// The shrunk case in the line language.
    pub case: String,
    /// The report for a reader.
    pub text: String,
}

/// The results of a worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Cases run.
    pub cases: u64,
    /// Compared operations, without set-ups.
    pub ops: u64,
    /// Checked golden answers.
    pub answers: u64,
    /// Skips and allowed divergences by name.
    pub counts: BTreeMap<String, u64>,
    /// Divergences by signature.
    pub alike: BTreeMap<String, u64>,
    /// For each operation, how often the host ran it, and how often it succeeded.
    pub worked: BTreeMap<String, [u64; 2]>,
    /// Whether it stopped before the end of its share.
    pub cut_short: bool,
}

/// The cases of a layer.
pub enum Source {
    /// Facts.
    Golden(Vec<Fact>),
    /// Sets.
    Exhaustive(Vec<Set>),
    /// Seed of the first case.
    Random(u64),
    /// Seed of the first case.
    Mounts(u64),
}

impl Source {
    /// The source of a layer.
    ///
    /// # Errors
    /// A message, if a file of facts cannot be parsed.
    pub fn new(part: Part, seed: u64) -> Result<Source, String> {
        Ok(match part {
            Part::Golden => Source::Golden(golden::all()?),
            Part::Exhaustive => Source::Exhaustive(exhaustive::sets()),
            Part::Random => Source::Random(seed),
            Part::Mounts => Source::Mounts(seed),
        })
    }

    /// How many cases there are, if limited.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        match self {
            Source::Golden(facts) => Some(facts.len() as u64),
            Source::Exhaustive(sets) => Some(exhaustive::count(sets)),
            Source::Random(_) | Source::Mounts(_) => None,
        }
    }

    /// The case of this number, and its origin.
    #[must_use]
    pub fn case(&self, number: u64) -> Option<(String, Case)> {
        match self {
            Source::Golden(facts) => {
                let fact = facts.get(usize::try_from(number).ok()?)?;
                Some((fact.name.clone(), fact.case.clone()))
            }
            Source::Exhaustive(sets) => exhaustive::case(sets, number),
            Source::Random(seed) => {
                let seed = seed.wrapping_add(number);
                Some((format!("seed {seed}"), random::case(seed)))
            }
            Source::Mounts(seed) => {
                let seed = seed.wrapping_add(number);
                Some((format!("mounts seed {seed}"), random::mounts::case(seed)))
            }
        }
    }

    fn snapshots(&self) -> Snapshots {
        match self {
            Source::Exhaustive(_) => Snapshots::Last,
            _ => Snapshots::Each,
        }
    }
}

/// Runs a job, and prints its messages to standard output.
pub fn work(job: &Job) {
    let said = match Worker::new(job).and_then(|mut w| w.run().map(|()| w.done)) {
        Ok(summary) => Said::Done(summary),
        Err(text) => Said::Failed(text),
    };
    say(&said);
}

fn say(said: &Said) {
    if let Ok(line) = serde_json::to_string(said) {
        let mut out = std::io::stdout().lock();
        // A closed pipe means that the supervisor is gone.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

struct Worker<'j> {
    job: &'j Job,
    source: Source,
    sides: Sides,
    state: File,
    steps: u64,
    done: Summary,
}

impl<'j> Worker<'j> {
    fn new(job: &'j Job) -> Result<Worker<'j>, String> {
        let state = File::create(&job.state).map_err(|e| format!("state file: {e}"))?;
        let source = Source::new(job.part, job.seed)?;
        let sides = Sides::new(job.against).map_err(|e| format!("mount namespace: {e}"))?;
        Ok(Worker {
            job,
            source,
            sides,
            state,
            steps: 0,
            done: Summary::default(),
        })
    }

    /// Records the current case, and shows progress.
    fn alive(&mut self, number: u64) {
        self.steps += 1;
        let mut bytes = [0; 24];
        for (i, v) in [number, self.steps, self.done.ops].into_iter().enumerate() {
            bytes[i * 8..i * 8 + 8].copy_from_slice(&v.to_le_bytes());
        }
        // The state only helps to explain a death; a living worker does not need it.
        let _ = self.state.write_all_at(&bytes, 0);
    }

    fn run(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        let limit = Duration::from_secs(self.job.seconds_max);
        let mut number = self.job.from;
        while number < self.job.count {
            if begun.elapsed() > limit || self.done.alike.len() >= self.job.reports_max {
                self.done.cut_short = true;
                return Ok(());
            }
            self.alive(number);
            let Some((origin, mut case)) = self.source.case(number) else {
                break;
            };
            if matches!(self.job.against, Against::Stacked(..)) {
                case = crate::stack::stacked(&case);
            }
            self.one(number, &origin, &case)?;
            number += self.job.step;
        }
        Ok(())
    }

    fn one(&mut self, number: u64, origin: &str, case: &Case) -> Result<(), String> {
        let mut counts = Counts(std::mem::take(&mut self.done.counts));
        let checked = self.sides.check(case, self.source.snapshots(), &mut counts);
        self.done.counts = counts.0;
        let checked = checked.map_err(|e| format!("{origin}: {e}"))?;
        self.done.cases += 1;
        self.done.ops += (case.ops.len() - case.setup) as u64;
        for (op, outcome) in case.ops.iter().zip(&checked.host.outcomes).skip(case.setup) {
            let word = op.word();
            if !self.done.worked.contains_key(word) {
                self.done.worked.insert(word.to_owned(), [0, 0]);
            }
            if let Some(n) = self.done.worked.get_mut(word) {
                n[0] += 1;
                n[1] += u64::from(outcome.is_ok());
            }
        }
        // A fact holds for tmpfs.
        let stacked = matches!(self.job.against, Against::Stacked(..));
        if let (Source::Golden(facts), false) = (&self.source, stacked) {
            let fact = &facts[usize::try_from(number).unwrap_or(0)];
            self.done.answers += fact.answers() as u64;
            // A difference from the host is reported as a divergence.
            if checked.divergence.is_none() {
                let beside = self.beside_fact(fact, case, &checked);
                let (wrong, steady) = beside.map_err(|e| format!("{origin}: {e}"))?;
                if !steady {
                    self.unsteady();
                }
                if let Some(wrong) = wrong {
                    self.report(origin, case, &wrong);
                    return Ok(());
                }
            }
        }
        let Some(d) = &checked.divergence else {
            return Ok(());
        };
        let looks = signature(case, d);
        if let Some(n) = self.done.alike.get_mut(&looks) {
            *n += 1;
            return Ok(());
        }
        let stays = self.sides.stays(case, self.source.snapshots(), &checked);
        if stays.map_err(|e| format!("{origin}: {e}"))? {
            self.done.alike.insert(looks, 1);
            self.found(number, origin, case, d);
        } else {
            self.unsteady();
        }
        Ok(())
    }

    /// The answers that contradict a fact, and whether the host's answer was the same when asked
    /// again: other activity of the machine can change it, as with a difference.
    fn beside_fact(
        &self,
        fact: &Fact,
        case: &Case,
        checked: &Checked,
    ) -> Result<(Option<Divergence>, bool), Errno> {
        let tell = |name: &str, trace: &Trace, (at, want): (usize, Expect)| Divergence {
            at,
            kind: "fact",
            text: format!(
                "    {name}: {:?}, the fact is {want:?}\n",
                trace.outcomes[at]
            ),
        };
        let mut steady = true;
        if let Some(wrong) = fact.wrong(&checked.host) {
            let right = |host: &Trace| fact.wrong(host).is_none();
            let snapshots = self.source.snapshots();
            if !self.sides.host_turns(case, snapshots, right)? {
                return Ok((Some(tell("host", &checked.host, wrong)), true));
            }
            steady = false;
        }
        // With the host below openpath, a difference is allowed; with the host on both sides, it
        // was asked already.
        let between = matches!(
            self.job.against,
            Against::Host | Against::OverHost(..) | Against::Served(_)
        );
        let other = checked.other.as_ref().filter(|_| !between);
        let wrong = other.and_then(|other| Some(tell("other", other, fact.wrong(other)?)));
        Ok((wrong, steady))
    }

    /// Counts a case in which the host's own answer changed when it ran again.
    fn unsteady(&mut self) {
        let seen = skips::HOST_UNSTEADY.to_owned();
        *self.done.counts.entry(seen).or_insert(0) += 1;
    }

    /// Shrinks and reports a divergence.
    fn found(&mut self, number: u64, origin: &str, case: &Case, d: &Divergence) {
        let mut last = (case.clone(), d.clone());
        let mut ignored = Counts::default();
        let small = shrink::shrink(case, |candidate| {
            let mut candidate = candidate.clone();
            random::tame(&mut candidate);
            self.alive(number);
            match self.sides.check(&candidate, Snapshots::Each, &mut ignored) {
                Ok(c) => match c.divergence {
                    Some(d) => {
                        last = (candidate, d);
                        true
                    }
                    None => false,
                },
                Err(_) => false,
            }
        });
        // The last failing candidate is the smallest case, unless nothing could be dropped.
        let (small, d) = if last.0.ops.len() <= small.ops.len() {
            last
        } else {
            (small, d.clone())
        };
        self.report(origin, &small, &d);
    }

    fn report(&mut self, origin: &str, case: &Case, d: &Divergence) {
        let signature = signature(case, d);
        self.done.alike.entry(signature.clone()).or_insert(1);
        let text = case::report(case, d);
        let (origin, case) = (origin.to_owned(), case.to_string());
        say(&Said::Report(Report {
            origin,
            signature,
            case,
            text,
        }));
    }
}

/// The kind of a divergence, without names and numbers.
fn signature(case: &Case, d: &Divergence) -> String {
    let word = case.ops.get(d.at).map_or("end", |op| op.word());
    let mut text: String = d.text.lines().take(2).collect();
    if d.kind != "outcome" {
        // Names of nodes differ between cases; the fields that differ do not.
        let fields: Vec<&str> = d
            .text
            .lines()
            .filter_map(|l| l.split(": ").nth(1))
            .take(3)
            .collect();
        text = fields.join(" ");
    }
    text.retain(|c| !c.is_ascii_digit());
    text.truncate(text.floor_char_boundary(160));
    format!("{} {word}{text}", d.kind)
}
