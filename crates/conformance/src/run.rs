// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs cases on a host, step by step, and compares each answer of openat2(2) with the right ones
//! of the case.
//!
//! # Rules
//! * Each case has a directory of its own, and begins and ends with a host that acts as root.
//! * A case with rows is two checks. *Cold*: everything is evicted, then tried twice, which shows
//!   that a failing try brings nothing into the cache. *Warm*: opened, then tried.
//! * A check continues after a wrong answer, and ends with a step that fails.
//! * If other tasks can disturb a host ([`Host::is_disturbed`]), a wrong `EAGAIN` is asked again,
//!   and then the whole check; a host that always gives it still fails.
//! * If the host lacks something, the check is skipped with the reason; it never passes.

use crate::case::{Answer, Call, Case, Expect, From, Step};
use crate::errno::Errno;
use crate::host::{At, Host, Knowledge, Need, Node};
use crate::how::How;
use crate::report::{Outcome, Report, Verdict};
use std::collections::BTreeMap;

/// Seconds by which an access time is set ahead, so that following a link leaves it alone.
const AHEAD: i64 = 3600;
/// Seconds by which an access time is set back, so that the next use has to write it: more than a
/// day.
const BACK: i64 = -200_000;

/// How often a call that may have been disturbed is repeated.
const CALLS_MAX: u32 = 100;
/// How often a check is repeated that other tasks' evictions may have disturbed.
const CHECKS_MAX: u32 = 3;

/// The half of a case with rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Whole,
    Cold,
    Warm,
}

/// Runs the cases that have `filter` in their names.
pub fn run(host: &mut dyn Host, cases: &[Case], filter: &str) -> Report {
    let mut outcomes = Vec::new();
    for case in cases.iter().filter(|case| case.id.contains(filter)) {
        let halves: &[(Half, &str)] = if case.has_rows() {
            &[(Half::Cold, "/cold"), (Half::Warm, "/warm")]
        } else {
            &[(Half::Whole, "")]
        };
        for (half, suffix) in halves {
            outcomes.push(Outcome {
                id: format!("{}{suffix}", case.id),
                says: case.says.clone(),
                verdict: judge(host, case, *half),
            });
        }
    }
    Report {
        host: host.name(),
        outcomes,
    }
}

fn judge(host: &mut dyn Host, case: &Case, half: Half) -> Verdict {
    let mut needs = case.needs();
    if half == Half::Cold {
        needs.push(Need::Cold);
    }
    if let Some(why) = needs.into_iter().find_map(|need| host.lacks(need)) {
        return Verdict::Skipped(why);
    }
    let mut left = if host.is_disturbed() { CHECKS_MAX } else { 1 };
    loop {
        let found = check(host, case, half);
        left -= 1;
        if found.wrong.is_empty() {
            return Verdict::Passed;
        }
        if left == 0 || found.wrong.len() > found.waits {
            return Verdict::Failed(found.wrong);
        }
    }
}

/// The faults of a check.
#[derive(Default)]
struct Found {
    /// A line for each.
    wrong: Vec<String>,
    /// How many of them were a wrong `EAGAIN`.
    waits: usize,
}

fn check(host: &mut dyn Host, case: &Case, half: Half) -> Found {
    let mut found = Found::default();
    let here = match host.begin() {
        Ok(here) => here,
        Err(why) => {
            found.wrong.push(format!("no directory: {why}"));
            return found;
        }
    };
    let mut check = Check {
        host,
        half,
        here,
        held: BTreeMap::new(),
        nodes: 0,
        swapping: false,
        found,
    };
    for line in &case.steps {
        if let Err(why) = check.step(&line.step) {
            let (number, text) = (line.number, &line.text);
            check
                .found
                .wrong
                .push(format!("line {number}: {text}: {why}"));
            break;
        }
        check.mark(line.number);
    }
    let mut found = check.found;
    if let Err(why) = host.act_as(0) {
        found.wrong.push(format!("cannot become root again: {why}"));
    }
    if let Err(why) = host.end() {
        found.wrong.push(format!("left behind: {why}"));
    }
    found
}

/// A running check.
struct Check<'a> {
    host: &'a mut dyn Host,
    half: Half,
    here: Vec<u8>,
    held: BTreeMap<String, i32>,
    nodes: u64,
    swapping: bool,
    found: Found,
}

/// Why a step failed.
type Stuck = String;

impl Check<'_> {
    fn step(&mut self, step: &Step) -> Result<(), Stuck> {
        match step {
            Step::Hold(name, call) => {
                let ok = Expect(vec![Answer::Ok]);
                let fd = self.insist(call, call.how, &ok)?.map_err(told)?;
                self.held.insert(name.clone(), fd);
                Ok(())
            }
            Step::Release(name) => {
                let fd = self
                    .held
                    .remove(name)
                    .ok_or("no descriptor is held under this name")?;
                self.host.close(fd).map_err(told)
            }
            Step::Open(call, expect) => self.ask("open", call, call.how, expect),
            Step::Try(call, expect) => self.ask("try", call, call.how.cached(), expect),
            Step::Tries(count, call, expect) => {
                let before = self.found.wrong.len();
                for _ in 0..*count {
                    self.ask("try", call, call.how.cached(), expect)?;
                    if self.found.wrong.len() > before {
                        break;
                    }
                }
                Ok(())
            }
            Step::Row(call, answers) => self.row(call, answers),
            Step::Stat(path, expect) => {
                let path = self.fill(path)?;
                let got = self.host.stat(&path);
                self.judge("stat", &path, got, expect, self.host.knowledge());
                Ok(())
            }
            Step::Umount(path, expect) => {
                let path = self.fill(path)?;
                let got = self.host.umount(&path);
                self.judge("umount", &path, got, expect, self.host.knowledge());
                Ok(())
            }
            Step::Nodes(compare) => {
                let free = self.host.free_nodes().map_err(told)?;
                if *compare && free != self.nodes {
                    let before = self.nodes;
                    self.found
                        .wrong
                        .push(format!("{free} free inodes, {before} before"));
                }
                self.nodes = free;
                Ok(())
            }
            Step::Settled => self.settled(),
            _ => self.prepare(step),
        }
    }

    /// The steps without an answer to check.
    fn prepare(&mut self, step: &Step) -> Result<(), Stuck> {
        match step {
            Step::Dir(path, mode) => self.make(path, Node::Dir, *mode),
            Step::File(path, mode) => self.make(path, Node::File(path.as_bytes()), *mode),
            Step::Fifo(path, mode) => self.make(path, Node::Fifo, *mode),
            Step::Link(path, target) => {
                let target = self.fill(target)?;
                self.make(path, Node::Link(&target), 0o777)?;
                if self.host.lacks(Need::AccessTimes).is_some() {
                    return Ok(());
                }
                let path = self.fill(path)?;
                self.host.set_atime(&path, AHEAD).map_err(told)
            }
            Step::Age(path) => {
                let path = self.fill(path)?;
                self.host.set_atime(&path, BACK).map_err(told)
            }
            Step::Remove(path) => {
                let path = self.fill(path)?;
                self.host.remove(&path).map_err(told)
            }
            Step::Chmod(path, mode) => {
                let path = self.fill(path)?;
                self.host.chmod(&path, *mode).map_err(told)
            }
            Step::Rename(old, new) => {
                let (old, new) = (self.fill(old)?, self.fill(new)?);
                self.host.rename(&old, &new, false).map_err(told)
            }
            Step::Swap(one, other) => {
                let (one, other) = (self.fill(one)?, self.fill(other)?);
                self.host.rename(&one, &other, true).map_err(told)
            }
            Step::Mount(path) => {
                let path = self.fill(path)?;
                self.host.mount(&path).map_err(told)
            }
            Step::Bind(source, target) => {
                let (source, target) = (self.fill(source)?, self.fill(target)?);
                self.host.bind(&source, &target).map_err(told)
            }
            Step::Swapping(one, other) => {
                let (one, other) = (self.fill(one)?, self.fill(other)?);
                self.swapping = true;
                self.host.start_swapping(&one, &other).map_err(told)
            }
            Step::User(uid) => self.host.act_as(*uid).map_err(told),
            Step::Cold => self.host.evict().map_err(told),
            _ => Ok(()),
        }
    }

    fn row(&mut self, call: &Call, [cold, open, warm]: &[Expect; 3]) -> Result<(), Stuck> {
        if self.half == Half::Cold {
            self.host.evict().map_err(told)?;
            for which in ["first try", "second try"] {
                self.ask(which, call, call.how.cached(), cold)?;
            }
        } else {
            self.ask("open", call, call.how, open)?;
            self.ask("try", call, call.how.cached(), warm)?;
        }
        Ok(())
    }

    /// Ends the swapping thread after at least one exchange.
    fn settled(&mut self) -> Result<(), Stuck> {
        if !std::mem::take(&mut self.swapping) {
            return Err("no thread is swapping".to_owned());
        }
        match self.host.stop_swapping().map_err(told)? {
            0 => Err("no names were swapped".to_owned()),
            _ => Ok(()),
        }
    }

    fn make(&mut self, path: &str, node: Node<'_>, mode: u32) -> Result<(), Stuck> {
        let path = self.fill(path)?;
        self.host.make(&path, node, mode).map_err(told)
    }

    fn call(&mut self, call: &Call, how: How) -> Result<Result<i32, Errno>, Stuck> {
        let at = match &call.from {
            From::Cwd => At::Cwd,
            From::Bad => At::Bad,
            From::Held(name) => At::Fd(
                *self
                    .held
                    .get(name)
                    .ok_or("no descriptor is held under this name")?,
            ),
        };
        let path = call
            .path
            .as_deref()
            .map(|path| self.fill(path))
            .transpose()?;
        Ok(self.host.openat2(at, path.as_deref(), how))
    }

    /// The same, repeated while it may have been disturbed.
    fn insist(
        &mut self,
        call: &Call,
        how: How,
        expect: &Expect,
    ) -> Result<Result<i32, Errno>, Stuck> {
        let mut got = self.call(call, how)?;
        if self.host.is_disturbed() && !expect.allows(Errno::EAGAIN, self.host.knowledge()) {
            for _ in 0..CALLS_MAX {
                if got != Err(Errno::EAGAIN) {
                    break;
                }
                std::thread::yield_now();
                got = self.call(call, how)?;
            }
        }
        Ok(got)
    }

    /// Opens, compares the answer, and closes.
    fn ask(&mut self, verb: &str, call: &Call, how: How, expect: &Expect) -> Result<(), Stuck> {
        let got = self.insist(call, how, expect)?;
        let path = call.path.as_deref().unwrap_or("NULL").as_bytes().to_vec();
        let Ok(fd) = got else {
            let known = self.host.knowledge();
            let knows = Knowledge {
                refusals: known.refusals && !how.makes(),
                ..known
            };
            self.judge(verb, &path, got.map(|_| ()), expect, knows);
            return Ok(());
        };
        if !expect.0.contains(&Answer::Ok) {
            let content = self.content(fd);
            let right = expect.0.iter().any(|answer| match answer {
                Answer::Content(wanted) => content.as_deref() == Ok(wanted.as_bytes()),
                _ => false,
            });
            if !right {
                let path = String::from_utf8_lossy(&path);
                let held = content.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                self.found
                    .wrong
                    .push(format!("{verb} {path:.60}: ok={held:?}, not {expect}"));
            }
        }
        self.host.close(fd).map_err(told)
    }

    fn content(&mut self, fd: i32) -> Result<Vec<u8>, Errno> {
        let mut buf = vec![0; 4096];
        let count = self.host.read(fd, &mut buf)?;
        buf.truncate(count);
        Ok(buf)
    }

    fn judge(
        &mut self,
        verb: &str,
        path: &[u8],
        got: Result<(), Errno>,
        expect: &Expect,
        knows: Knowledge,
    ) {
        let right = match got {
            Ok(()) => expect.0.contains(&Answer::Ok),
            Err(errno) => expect.allows(errno, knows),
        };
        if !right {
            let path = String::from_utf8_lossy(path);
            self.found.waits += usize::from(got == Err(Errno::EAGAIN));
            let got = got.map_or_else(|errno| errno.to_string(), |()| "ok".to_owned());
            self.found
                .wrong
                .push(format!("{verb} {path:.60}: {got}, not {expect}"));
        }
    }

    /// Puts the line number before the faults that were found there.
    fn mark(&mut self, number: usize) {
        for wrong in &mut self.found.wrong {
            if !wrong.starts_with("line ") {
                *wrong = format!("line {number}: {wrong}");
            }
        }
    }

    /// Expands the braces in a path.
    fn fill(&self, text: &str) -> Result<Vec<u8>, Stuck> {
        let mut all = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (inner, after) = after.split_once('}').ok_or("a brace is not closed")?;
            all.extend_from_slice(before.as_bytes());
            match inner.rsplit_once('*') {
                Some((unit, count)) => {
                    let count: usize = count.parse().map_err(|_| "no count")?;
                    all.extend_from_slice(unit.repeat(count).as_bytes());
                }
                None if inner == "here" => all.extend_from_slice(&self.here),
                None => {
                    let fd = self
                        .held
                        .get(inner)
                        .ok_or("no descriptor is held under this name")?;
                    all.extend_from_slice(fd.to_string().as_bytes());
                }
            }
            rest = after;
        }
        all.extend_from_slice(rest.as_bytes());
        Ok(all)
    }
}

fn told(errno: Errno) -> String {
    errno.to_string()
}
