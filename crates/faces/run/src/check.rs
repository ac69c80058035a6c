// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that the rules of a plan (for paths, patterns, mounts and limits) can all hold. A rule
//! that cannot is an error, never ignored.
//!
//! # Rules
//! R1. Of two rules the one for the inner path wins. Two rules that contradict each other at one
//!     path are refused, and so is a rule that another one leaves without effect.
//! R2. No rule holds in what passes: a rule for a path in it is refused. A pattern of names gives a
//!     warning, because it holds elsewhere.
//! R3. No file that controls a run, and no link on the way to it, may lie where the command can
//!     change it: the command would control the next run.

use crate::absent::Absent;
use crate::limit::Limit;
use crate::pid_limit::SHARED;
use crate::plan::{ExtraMount, Plan, TreeSource, Upper};
use crate::share::Share;
use openpath_commit::{PathBytes, Refusal, RefusalKind};
use std::path::{Path, PathBuf};

/// A rule for a path.
#[derive(Clone, Copy, Debug)]
struct Rule<'a> {
    /// The option that sets it.
    option: &'static str,
    path: &'a Path,
}

impl std::fmt::Display for Rule<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.option, self.path.display())
    }
}

impl Plan {
    /// Checks all rules; returns warnings about those that hold only in part.
    ///
    /// # Errors
    /// The first rule that cannot hold, with the remedy.
    pub fn check(&self) -> Result<Vec<String>, Refusal> {
        let root = Path::new("/");
        let whole = |rule: &Rule<'_>| rule.path == root;
        let mut all = self
            .hides()
            .chain(self.others())
            .chain(self.explicit_passes());
        if let Some(rule) = all.find(|rule| whole(rule) && rule.option != "--ro") {
            let text = format!("{rule}: not of the whole tree: name directories in it");
            return Err(Refusal::usage(text));
        }
        self.check_engine()?;
        self.check_limits()?;
        self.check_write_back()?;
        self.check_pairs()?;
        self.check_passes()?;
        let absent = Absent::new(self)?;
        for rule in self.others().chain(self.explicit_passes()) {
            let met = absent.admits(&rule.path.into());
            met.map_err(|_| {
                let text = "lies in what --hide or --absent says is not there: leave one out";
                Refusal::usage(format!("{rule} {text}"))
            })?;
        }
        for pass in Plan::default().pass {
            if absent.admits(&pass).is_err() {
                let (hiding, path) = (self.hiding(pass.path())?, pass.path().display());
                return Err(Refusal::usage(format!(
                    "{hiding} cannot hold: it means {path} too, which every view has: say less"
                )));
            }
        }
        self.check_patterns(&absent)
    }

    /// Refuses a rule that hides the working directory of the command.
    ///
    /// # Errors
    /// There is such a rule.
    pub fn check_working_directory(&self, cwd: &Path) -> Result<(), Refusal> {
        if Absent::new(self)?.admits(&cwd.into()).is_ok() {
            return Ok(());
        }
        Err(Refusal::usage(format!(
            "{} hides the working directory: hide what is in it, or start the run elsewhere",
            self.hiding(cwd)?
        )))
    }

    /// The rule that hides a path.
    fn hiding(&self, path: &Path) -> Result<String, Refusal> {
        let mut hides = self.hides().filter(|rule| path.starts_with(rule.path));
        if let Some(rule) = hides.next() {
            return Ok(rule.to_string());
        }
        for glob in &self.absent {
            let alone = Absent::new(&Plan {
                absent: vec![glob.clone()],
                ..Plan::default()
            });
            if alone?.admits(&path.into()).is_err() {
                return Ok(format!("--absent {glob}"));
            }
        }
        Ok("--absent".to_owned())
    }

    /// Refuses write-back where others write to the same files.
    fn check_write_back(&self) -> Result<(), Refusal> {
        let Some(rule) = self.shared_writes().filter(|_| self.write_back) else {
            return Ok(());
        };
        Err(Refusal::usage(format!(
            "--write-back and {rule}: others may write to the same files: leave one out"
        )))
    }

    /// A rule by which the command writes to files that others write to as well.
    fn shared_writes(&self) -> Option<Rule<'_>> {
        let shared =
            |extra: &&ExtraMount| !extra.read_only && matches!(extra.source, TreeSource::Host(_));
        let mut extra = self.extra.iter().filter(shared).map(|extra| Rule {
            option: "--mount",
            path: extra.place.path(),
        });
        rules("--rw", &self.write_through)
            .next()
            .or_else(|| extra.next())
    }

    /// Refuses limits that cannot be enforced.
    fn check_limits(&self) -> Result<(), Refusal> {
        for limit in self.limits.all() {
            let found = match limit {
                Limit::Memory(_) | Limit::Cpu(_) => crate::cgroup::check(*limit),
                Limit::Pids(_) => crate::pid_limit::check(self).or_else(|why| {
                    let group = crate::cgroup::check(*limit);
                    group.map_err(|other| format!("{why}; {other}"))
                }),
                Limit::Time(_) if self.shares(Share::Pid) => Err(SHARED.to_owned()),
                Limit::Time(_) => Ok(()),
            };
            found.map_err(|why| {
                let text = format!("--limit {limit} cannot hold: {why}");
                Refusal::new(RefusalKind::Unsupported, text)
            })?;
        }
        Ok(())
    }

    /// R1
    fn check_pairs(&self) -> Result<(), Refusal> {
        let all: Vec<_> = self.others().chain(self.explicit_passes()).collect();
        for (at, rule) in all.iter().enumerate() {
            let same = |other: &&Rule<'_>| other.path == rule.path;
            let mut others = all[at + 1..].iter().filter(same);
            // The same rule twice counts once, and a mount may be protected.
            let agree = |a: &str, b: &str| match (a, b) {
                ("--mount", "--mount") => false,
                ("--ro", "--mount") | ("--mount", "--ro") => true,
                _ => a == b,
            };
            if let Some(other) = others.find(|other| !agree(rule.option, other.option)) {
                let text = format!("{rule} and {} of the same path: keep one", other.option);
                return Err(Refusal::usage(text));
            }
        }
        Ok(())
    }

    /// R2
    fn check_passes(&self) -> Result<(), Refusal> {
        // The view's own directory is masked where it passes.
        let own = match &self.upper {
            Upper::Directory(dir) => Some(dir.path()),
            Upper::Memory { .. } => None,
        };
        let said = |rule: &Rule<'_>| Some(rule.path) != own;
        for rule in self.hides().filter(said).chain(self.others()) {
            let passes = |pass: &&PathBytes| rule.path.starts_with(pass.path());
            if let Some(pass) = self.pass.iter().find(passes) {
                let pass = pass.path().display();
                let text = format!("{rule} cannot hold: {pass} passes, and no rule holds in it");
                return Err(Refusal::usage(text));
            }
        }
        Ok(())
    }

    /// R2
    fn check_patterns(&self, absent: &Absent) -> Result<Vec<String>, Refusal> {
        let mut told = Vec::new();
        let own = Plan::default().pass;
        for pass in &self.pass {
            let name = pass.path().display();
            match absent.reaches_into(pass)? {
                Some((pattern, true)) => {
                    let text = format!(
                        "--absent {pattern} cannot hold: {name} passes, and no rule holds in it"
                    );
                    return Err(Refusal::usage(text));
                }
                Some((pattern, false)) if !own.contains(pass) => {
                    told.push(format!(
                        "--absent {pattern} does not hold in {name}, which passes"
                    ));
                }
                _ => {}
            }
            let mut names = self.absent.iter().filter(|glob| !glob.contains('/'));
            if let Some(glob) = names.next().filter(|_| !own.contains(pass)) {
                told.push(format!(
                    "--absent {glob} does not hold in {name}, which passes"
                ));
            }
        }
        Ok(told)
    }

    /// Refuses a file that the command could change; `option` names it in the message, and `path`
    /// is absolute.
    ///
    /// # Errors
    /// The file, or a link on the way to it, lies where changes go to the disk.
    pub fn check_file(&self, option: &str, path: &Path) -> Result<(), Refusal> {
        let (links, end) = walk_links(path)?;
        for (place, what) in links
            .iter()
            .map(|link| (link, "a link on the way to it"))
            .chain([(&end, "it")])
        {
            if let Some(rule) = self.writable_by(place) {
                return Err(Refusal::usage(format!(
                    "{option} {}: the command can change {what} ({rule}): put it elsewhere, or \
                     protect it with --ro {}",
                    path.display(),
                    place.display()
                )));
            }
        }
        Ok(())
    }

    /// Refuses a rule whose path leads through a link that the command can change: the user did not
    /// choose the target.
    ///
    /// # Errors
    /// There is such a link.
    pub fn check_links(&self, option: &str, path: &Path) -> Result<(), Refusal> {
        let (links, _) = walk_links(path)?;
        let mut links = links
            .iter()
            .filter_map(|link| Some((link, self.writable_by(link)?)));
        match links.next() {
            None => Ok(()),
            Some((link, rule)) => Err(Refusal::usage(format!(
                "{option} {}: it leads through the link {}, which the command can change ({rule}): \
                 name the directory that it leads to",
                path.display(),
                link.display()
            ))),
        }
    }

    /// The option by which the command can change a path of the host, if there is one.
    fn writable_by(&self, path: &Path) -> Option<String> {
        let below = |rule: &Rule<'_>| path.starts_with(rule.path);
        let rules = self.others().chain(self.explicit_passes());
        let rules = rules.filter(|rule| rule.option != "--mount" && below(rule));
        let innermost = rules.max_by_key(|rule| rule.path.as_os_str().len());
        if let Some(rule) = innermost.filter(|rule| rule.option != "--ro") {
            return Some(rule.to_string());
        }
        let from = |extra: &&ExtraMount| match &extra.source {
            TreeSource::Host(source) => !extra.read_only && path.starts_with(source.path()),
            TreeSource::Overlay {
                upper: Some(Upper::Directory(dir)),
                ..
            } => path.starts_with(dir.path()),
            _ => false,
        };
        let extra = self.extra.iter().find(from)?;
        Some(format!("--mount {}", extra.place.path().display()))
    }

    fn hides(&self) -> impl Iterator<Item = Rule<'_>> {
        rules("--hide", &self.hidden)
    }

    /// Rules for paths that are read only, written through or mounted.
    fn others(&self) -> impl Iterator<Item = Rule<'_>> {
        let mounts = self.extra.iter().map(|extra| Rule {
            option: "--mount",
            path: extra.place.path(),
        });
        rules("--ro", &self.read_only)
            .chain(rules("--rw", &self.write_through))
            .chain(mounts)
    }

    fn passes(&self) -> impl Iterator<Item = Rule<'_>> {
        rules("--pass", &self.pass)
    }

    /// What passes besides the defaults.
    fn explicit_passes(&self) -> impl Iterator<Item = Rule<'_>> {
        let own = Plan::default().pass;
        self.passes()
            .filter(move |rule| !own.iter().any(|own| own.path() == rule.path))
    }
}

fn rules<'a>(option: &'static str, paths: &'a [PathBytes]) -> impl Iterator<Item = Rule<'a>> {
    paths.iter().map(move |path| Rule {
        option,
        path: path.path(),
    })
}

/// The links on the way of an absolute path, and its end, as paths without links. A missing path
/// stands for itself.
fn walk_links(path: &Path) -> Result<(Vec<PathBuf>, PathBuf), Refusal> {
    /// The limit of the kernel.
    const LINKS_MAX: usize = 40;
    let (mut links, mut at) = (Vec::new(), PathBuf::from("/"));
    let parts = |path: &Path| path.iter().rev().map(ToOwned::to_owned).collect::<Vec<_>>();
    let mut rest = parts(path);
    while let Some(part) = rest.pop() {
        match part.as_encoded_bytes() {
            b"/" => at = PathBuf::from("/"),
            b".." => drop(at.pop()),
            _ => match at.join(&part).read_link() {
                Err(_) => at.push(part),
                Ok(_) if links.len() == LINKS_MAX => {
                    let text = format!("{}: too many links on the way", path.display());
                    return Err(Refusal::usage(text));
                }
                Ok(target) => {
                    links.push(at.join(part));
                    rest.extend(parts(&target));
                }
            },
        }
    }
    Ok((links, at))
}

#[cfg(test)]
mod tests {
    use super::walk_links;
    use crate::plan::{ExtraMount, Plan, TreeSource};
    use openpath_commit::PathBytes;
    use std::path::Path;

    fn at(path: &str) -> PathBytes {
        Path::new(path).into()
    }

    fn some(paths: &[&str]) -> Vec<PathBytes> {
        paths.iter().map(|path| at(path)).collect()
    }

    /// `ro`, `rw`, `hide`, further passes, mounts.
    fn plan(rules: [&[&str]; 5]) -> Plan {
        let [ro, rw, hide, pass, mounts] = rules;
        let extra = |place: &&str| ExtraMount {
            place: at(place),
            source: TreeSource::Memory { size: None },
            read_only: false,
        };
        Plan {
            read_only: some(ro),
            write_through: some(rw),
            hidden: some(hide),
            pass: [Plan::default().pass, some(pass)].concat(),
            extra: mounts.iter().map(extra).collect(),
            ..Plan::default()
        }
    }

    #[test]
    fn rules_that_cannot_hold_are_refused() {
        for (rules, why) in [
            ([&[][..], &[], &["/"], &[], &[]], "whole tree"),
            ([&[], &["/"], &[], &[], &[]], "whole tree"),
            ([&[], &[], &[], &["/"], &[]], "whole tree"),
            ([&[], &[], &[], &[], &["/"]], "whole tree"),
            ([&["/a"], &["/a"], &[], &[], &[]], "keep one"),
            ([&["/a"], &[], &[], &["/a"], &[]], "keep one"),
            ([&[], &["/a"], &[], &[], &["/a"]], "keep one"),
            ([&[], &[], &[], &[], &["/a", "/a"]], "keep one"),
            ([&["/p/a"], &[], &[], &["/p"], &[]], "/p passes"),
            ([&[], &["/p/a"], &[], &["/p"], &[]], "/p passes"),
            ([&[], &[], &["/p/a"], &["/p"], &[]], "/p passes"),
            ([&[], &[], &[], &["/p"], &["/p/a"]], "/p passes"),
            ([&[], &[], &[], &[], &["/dev/shm"]], "/dev passes"),
            ([&[], &[], &["/proc/x"], &[], &[]], "/proc passes"),
            ([&["/h/a"], &[], &["/h"], &[], &[]], "leave one out"),
            ([&[], &["/h"], &["/h"], &[], &[]], "leave one out"),
            ([&[], &[], &["/h"], &["/h/p"], &[]], "leave one out"),
        ] {
            let said = plan(rules).check().unwrap_err().to_string();
            assert!(said.contains(why), "{rules:?}: {said}");
        }
        let nested = plan([
            &["/a", "/"],
            &["/a/b", "/c"],
            &["/c/h"],
            &["/a/p"],
            &["/a/m"],
        ]);
        assert_eq!(nested.check().unwrap(), [""; 0]);
    }

    #[test]
    fn patterns_do_not_hold_in_what_passes() {
        let with = |absent: &str| Plan {
            absent: vec![absent.to_owned()],
            ..plan([&[], &[], &[], &["/p/q"], &[]])
        };
        for absent in ["*.pem", "/**/x", "/p/*/x"] {
            let told = with(absent).check().unwrap();
            assert!(
                told[0].contains(absent) && told[0].contains("/p/q"),
                "{told:?}"
            );
        }
        for absent in ["/p/q/x", "/proc/*/mem", "/p/q/**"] {
            let why = with(absent).check().unwrap_err().to_string();
            assert!(why.contains(absent), "{why}");
        }
        assert_eq!(with("/p/x/*").check().unwrap(), [""; 0]);
    }

    #[test]
    fn files_that_the_command_can_change_are_found() {
        let dir = std::env::temp_dir().join(format!("openpath-check-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("rw/ro")).unwrap();
        let dir = dir.canonicalize().unwrap();
        let path = |name: &str| dir.join(name).display().to_string();
        for (target, link) in [("ro/f", "rw/link"), ("rw/link", "link"), ("rw", "way")] {
            std::os::unix::fs::symlink(target, path(link)).unwrap();
        }
        let plan = plan([&[&path("rw/ro")], &[&path("rw")], &[], &[], &[]]);
        for wrong in ["rw/f", "rw/link", "link", "way/f"] {
            let why = plan.check_file("--config", Path::new(&path(wrong)));
            assert!(why.is_err(), "{wrong}");
        }
        for fine in ["f", "rw/ro/f", "way/ro/f"] {
            let checked = plan.check_file("--config", Path::new(&path(fine)));
            assert!(checked.is_ok(), "{fine}");
        }
        assert!(plan.check_links("--rw", Path::new(&path("way/x"))).is_ok());
        assert!(
            plan.check_links("--rw", Path::new(&path("rw/link")))
                .is_err()
        );
        let (links, end) = walk_links(Path::new(&path("link"))).unwrap();
        assert_eq!(links, ["link", "rw/link"].map(|name| dir.join(name)));
        assert_eq!(end, dir.join("rw/ro/f"));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
