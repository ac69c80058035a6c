// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds the opens of a compilation, and the tree that they walked.
//!
//! The text has one record per line. `c` is the working directory, `d` a directory, `l` a symbolic
//! link and its target, `f` a file, `g` flags in hexadecimal, `p` a path as given. `o` has opens,
//! each `PATH.FLAGS`: the indices of its path and its flags in their lists. `!ERRNO` follows if the
//! open failed.

use std::collections::HashMap;
use std::fmt::Write as _;

/// One open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Open {
    /// Index of the path in [`Trace::paths`].
    pub(super) path: usize,
    /// The flags.
    pub(super) flags: u32,
    /// The errno; 0 for success.
    pub(super) errno: i32,
}

/// A compilation's opens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trace {
    /// The working directory.
    pub(super) cwd: String,
    /// The directories, parents first.
    pub(super) dirs: Vec<String>,
    /// The symbolic links and their targets.
    pub(super) links: Vec<(String, String)>,
    /// The files.
    pub(super) files: Vec<String>,
    /// The paths, as given.
    pub(super) paths: Vec<String>,
    /// The opens in their order.
    pub(super) opens: Vec<Open>,
}

/// How many opens a line has.
const A_LINE: usize = 16;

impl Trace {
    /// How many of the opens failed.
    #[cfg(test)]
    pub(super) fn failed(&self) -> usize {
        self.opens.iter().filter(|open| open.errno != 0).count()
    }

    /// The text.
    pub(super) fn write(&self) -> String {
        let mut out = format!("c {}\n", self.cwd);
        for (mark, list) in [('d', &self.dirs), ('f', &self.files), ('p', &self.paths)] {
            list.iter().for_each(|path| push(&mut out, mark, path));
        }
        for (path, target) in &self.links {
            push(&mut out, 'l', &format!("{path} {target}"));
        }
        let (mut flags, mut places) = (Vec::new(), HashMap::new());
        for open in &self.opens {
            places.entry(open.flags).or_insert_with(|| {
                flags.push(open.flags);
                flags.len() - 1
            });
        }
        for flags in flags {
            push(&mut out, 'g', &format!("{flags:x}"));
        }
        for line in self.opens.chunks(A_LINE) {
            out.push('o');
            for open in line {
                let _ = write!(out, " {}.{}", open.path, places[&open.flags]);
                if open.errno != 0 {
                    let _ = write!(out, "!{}", open.errno);
                }
            }
            out.push('\n');
        }
        out
    }

    /// Parses the text; None if it is invalid. Lines with `#` are comments.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (mut out, mut flags) = (Self::default(), Vec::new());
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (mark, rest) = line.split_once(' ')?;
            match mark {
                "c" => out.cwd = rest.to_owned(),
                "d" => out.dirs.push(rest.to_owned()),
                "f" => out.files.push(rest.to_owned()),
                "p" => out.paths.push(rest.to_owned()),
                "l" => {
                    let (path, target) = rest.split_once(' ')?;
                    out.links.push((path.to_owned(), target.to_owned()));
                }
                "g" => flags.push(u32::from_str_radix(rest, 16).ok()?),
                "o" => {
                    for word in rest.split(' ') {
                        out.opens.push(read_open(word, &flags)?);
                    }
                }
                _ => return None,
            }
        }
        let known = out.opens.iter().all(|open| open.path < out.paths.len());
        known.then_some(out)
    }
}

fn push(out: &mut String, mark: char, text: &str) {
    out.push(mark);
    out.push(' ');
    out.push_str(text);
    out.push('\n');
}

fn read_open(word: &str, flags: &[u32]) -> Option<Open> {
    let (word, errno) = match word.split_once('!') {
        Some((word, errno)) => (word, errno.parse().ok()?),
        None => (word, 0),
    };
    let (path, place) = word.split_once('.')?;
    Some(Open {
        path: path.parse().ok()?,
        flags: *flags.get(place.parse::<usize>().ok()?)?,
        errno,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_text_round_trips() {
        let open = |path, flags, errno| Open { path, flags, errno };
        let trace = Trace {
            cwd: "/build/project".to_owned(),
            dirs: vec!["/build".to_owned(), "/build/project".to_owned()],
            links: vec![("/lib".to_owned(), "usr/lib".to_owned())],
            files: vec!["/build/project/a.h".to_owned()],
            paths: vec!["a.h".to_owned(), "inc/a.h".to_owned()],
            opens: (0..40)
                .map(|i| open(i % 2, 0x8000 * (i as u32 % 3), 2 * (i as i32 % 2)))
                .collect(),
        };
        let text = trace.write();
        assert_eq!(Trace::read(&format!("# a remark\n{text}")), Some(trace));
        assert_eq!(Trace::read("o 0.0\n"), None);
        assert_eq!(Trace::read("g 0\no 0.0\n"), None);
        assert_eq!(Trace::read("z 0\n"), None);
    }
}
