// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the options of `openpath run` that only WebAssembly guests can have, such as `--fuel`
//! and `--dir`.

use openpath_run::{Refusal, spec};
use std::ffi::OsString;
use std::path::Path;

/// Options that native programs cannot be run with.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "WebAssembly guests")]
pub(crate) struct Options {
    /// End the guest after it has executed about this many instructions.
    #[arg(long, value_name = "N")]
    pub(super) fuel: Option<u64>,
    /// Limit the memory of the guest.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(super) memory: Option<u64>,
    /// Set a variable of the guest's environment; without a value, copy it from here. The guest has
    /// only these and `PWD`.
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(super) env: Vec<OsString>,
    /// Open a directory to the guest, by its own name or by another: the guest reaches only what is
    /// below these directories. Without this option the guest has `/`, and the working directory as
    /// `.`.
    #[arg(long, value_name = "[NAME=]PATH")]
    pub(super) dir: Vec<OsString>,
}

impl Options {
    /// The first of them that is given.
    pub(crate) fn said(&self) -> Option<&'static str> {
        let said = [
            ("--fuel", self.fuel.is_some()),
            ("--memory", self.memory.is_some()),
            ("--env", !self.env.is_empty()),
            ("--dir", !self.dir.is_empty()),
        ];
        said.into_iter().find_map(|(name, is)| is.then_some(name))
    }

    /// The guest's environment, as names and values.
    pub(super) fn environment(&self, cwd: &Path) -> Vec<(OsString, OsString)> {
        let mut all = vec![("PWD".into(), cwd.into())];
        for word in &self.env {
            let (name, value) = match split(word) {
                Some((name, value)) => (name, Some(value)),
                None => (word.clone(), std::env::var_os(word)),
            };
            all.retain(|(known, _)| *known != name);
            all.extend(value.map(|value| (name, value)));
        }
        all
    }

    /// The guest's directories, with the names that the guest uses.
    pub(super) fn directories(&self, cwd: &Path) -> Vec<(OsString, OsString)> {
        if self.dir.is_empty() {
            // C libraries use the last one for relative paths.
            return vec![("/".into(), "/".into()), (".".into(), cwd.into())];
        }
        let both = |word: &OsString| split(word).unwrap_or_else(|| (word.clone(), word.clone()));
        self.dir.iter().map(both).collect()
    }
}

/// The parts before and after the first `=`.
fn split(word: &OsString) -> Option<(OsString, OsString)> {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    let bytes = word.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=')?;
    let part = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    Some((part(&bytes[..at]), part(&bytes[at + 1..])))
}

fn size(text: &str) -> Result<u64, Refusal> {
    spec::size(text)
}

#[cfg(test)]
mod tests {
    use super::Options;
    use std::path::Path;

    #[test]
    fn guest_has_the_given_environment_and_directories() {
        let options = Options {
            env: ["A=b=c", "E=", "PATH", "NOT_SET_HERE"]
                .map(Into::into)
                .to_vec(),
            dir: ["/tmp", "x=/srv/y"].map(Into::into).to_vec(),
            ..Options::default()
        };
        let cwd = Path::new("/w");
        let environment = options.environment(cwd);
        let names = environment.iter().map(|(name, _)| name.to_str().unwrap());
        let names: Vec<_> = names.collect();
        assert_eq!(names, ["PWD", "A", "E", "PATH"]);
        assert_eq!(environment[1].1, "b=c");
        let both = |a: &str, b: &str| (a.into(), b.into());
        let dirs = options.directories(cwd);
        assert_eq!(dirs, [both("/tmp", "/tmp"), both("x", "/srv/y")]);
        let dirs = Options::default().directories(cwd);
        assert_eq!(dirs, [both("/", "/"), both(".", "/w")]);
        assert_eq!(options.said(), Some("--env"));
    }
}
