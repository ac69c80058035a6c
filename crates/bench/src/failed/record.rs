// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records a compilation's opens with strace, and the part of the host's tree that they walked, so
//! that they can be replayed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use openpath_abi::Errno;
use serde::{Deserialize, Serialize};

use super::project;
use crate::host::{self, Scratch};

/// One open: the index of its path in [`Trace::paths`], its flags, and its errno, 0 for success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Open(pub(super) usize, pub(super) u32, pub(super) i32);

/// The opens of a compilation, and the tree that they walked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Trace {
    pub(super) cwd: String,
    /// The directories, parents first.
    pub(super) dirs: Vec<String>,
    pub(super) links: Vec<(String, String)>,
    pub(super) files: Vec<String>,
    /// The paths, as given.
    pub(super) paths: Vec<String>,
    pub(super) opens: Vec<Open>,
}

impl Trace {
    pub(super) fn read(text: &str) -> io::Result<Self> {
        let trace: Self = serde_json::from_str(text)?;
        match trace.opens.iter().all(|open| open.0 < trace.paths.len()) {
            true => Ok(trace),
            false => Err(io::Error::other("an open has no path")),
        }
    }

    /// Its text, with a line for each path.
    pub(super) fn write(&self) -> io::Result<String> {
        Ok(serde_json::to_string(self)?.replace(",\"", ",\n\""))
    }
}

/// Replaces the directory of the compilation.
const NEUTRAL: &str = "/build/project";
/// Flags of open(2), by name.
macro_rules! flags {
    ($($name:ident)*) => { &[$((stringify!($name), libc::$name)),*] };
}
const FLAGS: &[(&str, i32)] = flags!(O_RDONLY O_WRONLY O_RDWR O_CREAT O_EXCL O_NOCTTY O_TRUNC
    O_APPEND O_NONBLOCK O_DIRECTORY O_NOFOLLOW O_CLOEXEC O_LARGEFILE);

/// An open in strace's log.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    path: String,
    flags: u32,
    errno: i32,
}

/// Compiles a project of `units` units under strace.
pub(super) fn record(units: usize) -> io::Result<Trace> {
    let dir = Scratch::new(&std::env::temp_dir())?;
    let dir = dir.path();
    let script = project::write(dir, units)?;
    fs::write(dir.join("build.sh"), script)?;
    let log = dir.join("log");
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "--seccomp-bpf", "-s", "4096"])
        .args(["-e", "trace=open,openat,creat,openat2", "-o"])
        .arg(&log)
        .args(["sh", "build.sh"])
        .current_dir(dir)
        .env("TMPDIR", dir.join("tmp"))
        .env("LC_ALL", "C");
    host::run(&mut strace)?;
    let calls = parse(&String::from_utf8_lossy(&fs::read(&log)?));
    if calls.is_empty() {
        return Err(io::Error::other("strace saw no open"));
    }
    Ok(survey(dir, &calls))
}

/// The opens in a log of strace, relative to the working directory or absolute.
fn parse(log: &str) -> Vec<Call> {
    let mut begun: HashMap<&str, &str> = HashMap::new();
    let mut calls = Vec::new();
    for line in log.lines() {
        let Some((pid, rest)) = line.split_once(' ') else {
            continue;
        };
        let rest = rest.trim_start();
        if let Some(head) = rest.strip_suffix("<unfinished ...>") {
            begun.insert(pid, head);
        } else if rest.starts_with("<...") {
            let tail = rest.split_once("resumed>").map_or("", |(_, tail)| tail);
            let head = begun.remove(pid).unwrap_or_default();
            calls.extend(parse_call(&format!("{head}{tail}")));
        } else {
            calls.extend(parse_call(rest));
        }
    }
    calls
}

fn parse_call(text: &str) -> Option<Call> {
    let (name, rest) = text.split_once('(')?;
    let rest = match name {
        "open" => rest,
        "openat" => rest.strip_prefix("AT_FDCWD, ")?,
        _ => return None,
    };
    let (path, rest) = rest.strip_prefix('"')?.split_once('"')?;
    let (args, answer) = rest.rsplit_once(") = ")?;
    let words = args.trim_start_matches(", ").split(',').next()?;
    let mut flags = 0;
    for word in words.split('|') {
        flags |= FLAGS.iter().find(|(name, _)| *name == word.trim())?.1;
    }
    let errno = match answer.trim().strip_prefix("-1 ") {
        Some(why) => Errno::from_name(why.split(' ').next()?)?.raw(),
        None => 0,
    };
    let (path, flags) = (path.to_owned(), flags.cast_unsigned());
    let plain = !path.contains(['\\', ' ']);
    plain.then_some(Call { path, flags, errno })
}

/// The objects that the walks met.
#[derive(Default)]
struct Seen {
    dirs: BTreeSet<PathBuf>,
    links: BTreeMap<PathBuf, PathBuf>,
    files: BTreeSet<PathBuf>,
}

impl Seen {
    /// Walks `path` as an open would, and records all objects on the way. An object that an open
    /// found and that was removed since counts as a file.
    fn walk(&mut self, path: &Path, found: bool) {
        let mut at = PathBuf::new();
        let mut names = path.components().peekable();
        while let Some(name) = names.next() {
            match name {
                Component::ParentDir => {
                    at.pop();
                    continue;
                }
                name => at.push(name),
            }
            let found = found && names.peek().is_none();
            match fs::symlink_metadata(&at) {
                Ok(meta) if meta.is_symlink() => {
                    let target = fs::read_link(&at).unwrap_or_default();
                    let (whole, real) = (at.with_file_name(&target), fs::canonicalize(&at));
                    self.links.insert(at, target);
                    if real
                        .as_ref()
                        .is_err_and(|why| why.raw_os_error() == Some(libc::ELOOP))
                    {
                        return;
                    }
                    self.walk(&whole, found);
                    let Ok(real) = real else {
                        return;
                    };
                    at = real;
                }
                Ok(meta) if meta.is_dir() => drop(self.dirs.insert(at.clone())),
                other => {
                    if other.is_ok() || found {
                        self.files.insert(at);
                    }
                    return;
                }
            }
        }
    }
}

/// The calls with the tree that they walked; `dir`, their working directory, gets a neutral name.
fn survey(dir: &Path, calls: &[Call]) -> Trace {
    let mut seen = Seen::default();
    for call in calls {
        seen.walk(&dir.join(&call.path), call.errno == 0);
    }
    let here = dir.to_string_lossy().into_owned();
    let neutral = |text: &str| match text.strip_prefix(here.as_str()) {
        Some(rest) => format!("{NEUTRAL}{rest}"),
        None => text.to_owned(),
    };
    let text = |path: &PathBuf| neutral(&path.to_string_lossy());
    let mut trace = Trace {
        cwd: NEUTRAL.to_owned(),
        ..Trace::default()
    };
    trace.dirs.push("/build".to_owned());
    // Directories that lead only to the scratch directory are left out.
    let kept = |at: &&PathBuf| !(dir.starts_with(at) && *at != dir);
    trace.dirs.extend(seen.dirs.iter().filter(kept).map(text));
    trace.files.extend(seen.files.iter().map(text));
    let links = seen.links.iter();
    trace
        .links
        .extend(links.map(|(path, target)| (text(path), text(target))));
    let mut places = HashMap::new();
    for call in calls {
        let path = neutral(&call.path);
        let next = trace.paths.len();
        let path = *places.entry(path.clone()).or_insert_with(|| {
            trace.paths.push(path);
            next
        });
        trace.opens.push(Open(path, call.flags, call.errno));
    }
    trace
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(path: &str, flags: i32, errno: i32) -> Call {
        let (path, flags) = (path.to_owned(), flags.cast_unsigned());
        Call { path, flags, errno }
    }

    #[test]
    fn calls_are_parsed_from_strace_log() {
        let log = "7  openat(AT_FDCWD, \"a/x.h\", O_RDONLY|O_NOCTTY) = -1 ENOENT (No such file)\n\
            7  openat(AT_FDCWD, \"/t/c.s\", O_RDWR|O_CREAT|O_EXCL, 0600) = 3\n\
            8  openat(AT_FDCWD, \"b\", O_RDONLY <unfinished ...>\n\
            7  +++ exited with 0 +++\n\
            8  <... openat resumed>) = 4\n\
            8  openat(5, \"beside\", O_RDONLY) = 3\n\
            8  openat(AT_FDCWD, \"c\", O_STRANGE) = 3\n";
        let created = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
        let want = [
            call("a/x.h", libc::O_NOCTTY, libc::ENOENT),
            call("/t/c.s", created, 0),
            call("b", 0, 0),
        ];
        assert_eq!(parse(log), want);
    }

    #[test]
    fn survey_finds_links_directories_and_removed_files() {
        let dir = Scratch::new(&std::env::temp_dir()).unwrap();
        let dir = dir.path();
        fs::create_dir_all(dir.join("real/deep")).unwrap();
        fs::write(dir.join("real/deep/x.h"), "").unwrap();
        std::os::unix::fs::symlink("real", dir.join("link")).unwrap();
        let missing = || call("real/none.h", 0, libc::ENOENT);
        let calls = [
            call("link/deep/../deep/x.h", 0, 0),
            call("gone.s", 0, 0),
            missing(),
            missing(),
        ];
        let trace = survey(dir, &calls);
        let at = |name: &str| format!("{NEUTRAL}{name}");
        assert_eq!(trace.dirs[1..], ["", "/real", "/real/deep"].map(at));
        assert_eq!(trace.files, ["/gone.s", "/real/deep/x.h"].map(at));
        assert_eq!(trace.links, [(at("/link"), "real".to_owned())]);
        let errnos: Vec<i32> = trace.opens.iter().map(|open| open.2).collect();
        assert_eq!(errnos, [0, 0, libc::ENOENT, libc::ENOENT]);
        assert_eq!(trace.paths.len(), 3);
        assert_eq!(Trace::read(&trace.write().unwrap()).unwrap(), trace);
        let lost = Trace {
            paths: Vec::new(),
            ..trace
        };
        assert!(Trace::read(&lost.write().unwrap()).is_err());
    }
}
