// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the configuration of `openpath run` from a TOML file and from options, makes its paths
//! absolute, and makes the plan of the run from it.
//!
//! ```toml
//! upper = "memory:2G"
//! rw = ["/home/u/project/target"]
//! hide = ["/home/u/.ssh"]
//! absent = ["*.pem"]
//!
//! [[mounts]]
//! destination = "/scratch"
//! type = "mem"
//! options = ["size=256M"]
//! ```

use crate::summary::text_of;
use openpath_run::{Engine, Limit, Limits, Net, PathBytes, Plan, Refusal, Share, spec};
use serde::{Deserialize, Serialize};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The configuration of a run. Paths are relative to the directory of the file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Where the changes are kept: `memory`, `memory:SIZE`, or a directory.
    pub(crate) upper: Option<String>,
    /// The name of the kept view.
    pub(crate) name: Option<String>,
    pub(crate) rw: Vec<PathBuf>,
    pub(crate) ro: Vec<PathBuf>,
    /// Like `ro`, but the paths need not exist.
    #[serde(rename = "ro-try")]
    pub(crate) ro_try: Vec<PathBuf>,
    pub(crate) hide: Vec<PathBuf>,
    /// Like `hide`, but the paths need not exist.
    #[serde(rename = "hide-try")]
    pub(crate) hide_try: Vec<PathBuf>,
    pub(crate) absent: Vec<String>,
    pub(crate) pass: Vec<PathBuf>,
    /// What serves the view.
    pub(crate) engine: Engine,
    /// The kernel keeps writes back.
    #[serde(rename = "write-back")]
    pub(crate) write_back: bool,
    /// Changes of others in the real tree are seen at once.
    pub(crate) live: bool,
    /// The server handles file locks.
    pub(crate) locks: bool,
    /// Requests are read even where the kernel offers rings for them.
    #[serde(rename = "no-rings")]
    pub(crate) no_rings: bool,
    /// The resources that the command shares with the host.
    pub(crate) share: Vec<Share>,
    /// The network of the command.
    pub(crate) net: Net,
    /// The limits on what all processes of the view use together.
    pub(crate) limit: Vec<Limit>,
    pub(crate) mounts: Vec<Mount>,
}

/// A tree in the view, with the keys of the OCI runtime configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mount {
    pub(super) destination: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<String>,
    #[serde(default)]
    pub(super) options: Vec<String>,
}

impl Config {
    /// Reads a file.
    pub(crate) fn read(file: &Path) -> Result<Config, String> {
        let said = |why: &dyn std::fmt::Display| format!("--config {}: {why}", file.display());
        let text = std::fs::read_to_string(file).map_err(|why| match why.kind() {
            std::io::ErrorKind::NotFound => said(&"there is no such file"),
            std::io::ErrorKind::IsADirectory => said(&"it is a directory: name a TOML file"),
            _ => said(&why),
        })?;
        let mut config: Config = toml::from_str(&text).map_err(|why| said(&why))?;
        let file = std::path::absolute(file).map_err(|why| said(&why))?;
        // Without links and `..`, because patterns cannot have them.
        let dir = file.parent().unwrap_or(Path::new("/")).canonicalize();
        let settled = config.settle(&dir.map_err(|why| said(&why))?);
        settled.map_err(|why| said(&why))?;
        Ok(config)
    }

    /// Makes all paths, and patterns with a slash, absolute from `dir`.
    ///
    /// # Errors
    /// A wrong pattern; a wrong mount; an upper layer of an unknown kind; a path that is not UTF-8
    /// where it must be; a path that begins with `~` or `$`, which a shell would have expanded.
    pub(crate) fn settle(&mut self, dir: &Path) -> Result<(), Refusal> {
        for (option, paths) in [
            ("--rw", &mut self.rw),
            ("--ro", &mut self.ro),
            ("--ro-try", &mut self.ro_try),
            ("--hide", &mut self.hide),
            ("--hide-try", &mut self.hide_try),
            ("--pass", &mut self.pass),
        ] {
            for path in paths {
                check_written(option, path)?;
                *path = dir.join(&*path);
            }
        }
        for pattern in &mut self.absent {
            *pattern = spec::pattern(dir, pattern)?;
        }
        let whole = |option: &str, path: &str| {
            check_written(option, Path::new(path))?;
            Ok::<_, Refusal>(spec::utf8(&dir.join(path))?.to_owned())
        };
        if let Some(upper) = &mut self.upper
            && !spec::is_memory(upper)?
        {
            *upper = whole("--upper", upper)?;
        }
        if let Some(name) = self.name.as_ref().filter(|name| name.contains('/')) {
            check_written("--name", Path::new(name))?;
        }
        for mount in &mut self.mounts {
            // Before the paths are made absolute, so that a message has the text as it was typed.
            spec::extra_mount(dir, &mount.text())?;
            mount.destination = whole("--mount", &mount.destination)?;
            if let Some(source) = &mut mount.source {
                *source = whole("--mount", source)?;
            }
            for option in &mut mount.options {
                let Some((key, path)) = option.split_once('=') else {
                    continue;
                };
                let is_path = match key {
                    "lower" => true,
                    "upper" => !spec::is_memory(path)?,
                    _ => false,
                };
                if is_path && !path.is_empty() {
                    *option = format!("{key}={}", whole("--mount", path)?);
                }
            }
        }
        Ok(())
    }

    /// The plan of a settled configuration; it has nothing of the name yet.
    ///
    /// # Errors
    /// Those of [`spec`].
    pub(crate) fn plan(&self, cwd: &Path) -> Result<Plan, Refusal> {
        let all = |paths: &[PathBuf]| -> Result<Vec<PathBytes>, Refusal> {
            paths.iter().map(|path| spec::resolve(cwd, path)).collect()
        };
        let hidden = self.hide.iter().chain(&self.hide_try);
        let hidden = hidden.map(|path| spec::hidden_names(cwd, path));
        let mut plan = Plan::default()
            .write_through(all(&self.rw)?)
            .read_only([all(&self.ro)?, all(&self.ro_try)?].concat())
            .read_only_if_any(all(&self.ro_try)?)
            .hidden(hidden.collect::<Result<Vec<_>, _>>()?.concat())
            .absent(self.absent.clone())
            .engine(self.engine)
            .write_back(self.write_back)
            .live(self.live)
            .locks(self.locks)
            .no_rings(self.no_rings)
            .share(self.share.clone())
            .net(self.net)
            .limits(self.limits());
        plan.pass.extend(all(&self.pass)?);
        for mount in &self.mounts {
            plan.extra.push(spec::extra_mount(cwd, &mount.text())?);
        }
        if let Some(upper) = &self.upper {
            plan.upper = spec::upper(cwd, upper)?;
        }
        Ok(plan)
    }
}

impl Config {
    /// Refuses paths that a file of rules cannot hold.
    ///
    /// # Errors
    /// A path that is not UTF-8.
    pub(super) fn check_paths_are_text(&self) -> Result<(), Refusal> {
        for (option, paths) in [
            ("--rw", &self.rw),
            ("--ro", &self.ro),
            ("--ro-try", &self.ro_try),
            ("--hide", &self.hide),
            ("--hide-try", &self.hide_try),
            ("--pass", &self.pass),
        ] {
            if let Some(path) = paths.iter().find(|path| path.to_str().is_none()) {
                let path = text_of(path);
                return Err(Refusal::usage(format!(
                    "{option} {path}: rules that are written to a file need paths in UTF-8: rename \
                     it, or run without --name, --upper DIR and --dry-run"
                )));
            }
        }
        Ok(())
    }

    /// One limit for each resource.
    pub(super) fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.add(&self.limit);
        limits
    }
}

impl Mount {
    /// The value of the option for this mount.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}={}", self.destination, self.kind);
        if let Some(source) = &self.source {
            text += &format!(":{source}");
        }
        self.options
            .iter()
            .fold(text, |text, word| text + "," + word)
    }

    /// Parses the value of the option.
    pub(crate) fn parse(text: &str) -> Result<Mount, String> {
        let (destination, tree) = text.split_once('=').ok_or_else(|| {
            format!("`{text}` is no mount: write DIR=mem, DIR=host:PATH or DIR=overlay,...")
        })?;
        let mut words = tree.split(',').map(str::to_owned);
        let kind = words.next().unwrap_or_default();
        let (kind, source) = match kind.split_once(':') {
            Some((kind, source)) => (kind.to_owned(), Some(source.to_owned())),
            None => (kind, None),
        };
        Ok(Mount {
            destination: destination.to_owned(),
            kind,
            source,
            options: words.collect(),
        })
    }
}

/// Refuses a path that begins with `~` or a variable, which would hide nothing: a shell expands
/// neither in quotes, and nothing expands them in a file.
fn check_written(option: &str, path: &Path) -> Result<(), Refusal> {
    match path.as_os_str().as_bytes() {
        [sign @ (b'~' | b'$'), ..] => Err(Refusal::usage(format!(
            "{option} {0}: `{1}` is not expanded here: write the path in full, or ./{0} for a name \
             that begins so",
            text_of(path),
            char::from(*sign)
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Config, Mount};
    use openpath_run::{TreeSource, Upper};
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn file_gives_a_plan_and_survives_a_round_trip() {
        let text = "upper = \"memory:2G\"\nrw = [\"t\"]\nabsent = [\"*.pem\"]\n\
            [[mounts]]\ndestination = \"/scratch\"\ntype = \"mem\"\noptions = [\"size=256M\"]\n";
        let config: Config = toml::from_str(text).unwrap();
        let plan = config.plan(Path::new("/w")).unwrap();
        assert_eq!(
            plan.upper,
            Upper::Memory {
                size: Some(2 << 30)
            }
        );
        assert_eq!(plan.write_through[0].path(), Path::new("/w/t"));
        assert!(!plan.write_back);
        let late: Config = toml::from_str("write-back = true\n").unwrap();
        assert!(late.plan(Path::new("/w")).unwrap().write_back);
        assert_eq!(
            plan.extra[0].source,
            TreeSource::Memory {
                size: Some(256 << 20)
            }
        );
        let again: Config = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
        assert_eq!(again.plan(Path::new("/w")).unwrap(), plan);
    }

    /// The keys that a parser of `T` knows, from its error.
    fn keys<T: serde::de::DeserializeOwned>(text: &str) -> BTreeSet<String> {
        let why = toml::from_str::<T>(text).err().unwrap().to_string();
        let known = why.split_once("expected").unwrap().1;
        let words = known.split('`').skip(1).step_by(2);
        words.map(str::to_owned).collect()
    }

    #[test]
    fn guide_lists_all_keys_of_the_file() {
        let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/agents.md");
        let guide = std::fs::read_to_string(guide).unwrap();
        let table = guide.split_once("| key | value | option |\n").unwrap().1;
        let (table, rest) = table.split_once("\n\n").unwrap();
        let listed = |text: &str| -> BTreeSet<String> {
            let words = text.split('`').skip(1).step_by(2);
            words.map(str::to_owned).collect()
        };
        let rows = table.lines().skip(1);
        let rows = rows.flat_map(|row| listed(row.split('|').nth(1).unwrap()));
        let rows: BTreeSet<String> = rows.collect();
        assert_eq!(rows, keys::<Config>("no-such-key = 1\n"));
        let mount = rest.split("\n\n").next().unwrap();
        let known = keys::<Mount>("destination = \"/x\"\ntype = \"mem\"\nno-such-key = 1\n");
        assert_eq!(known.len(), 4);
        assert!(known.is_subset(&listed(mount)), "{mount}");
    }

    #[test]
    fn unknown_key_and_mount_without_a_tree_are_refused() {
        assert!(toml::from_str::<Config>("read-write = []\n").is_err());
        assert!(Mount::parse("/x").is_err());
        let mount = Mount::parse("/x=host:/y,ro").unwrap();
        assert_eq!(mount.text(), "/x=host:/y,ro");
    }

    #[test]
    fn patterns_with_a_slash_are_relative_to_the_directory_of_the_file() {
        let text = "absent = [\"*.pem\", \"keys/*\", \"/etc/*.key\"]\n";
        let mut config: Config = toml::from_str(text).unwrap();
        config.settle(Path::new("/w*")).unwrap();
        assert_eq!(config.absent, ["*.pem", r"/w\*/keys/*", "/etc/*.key"]);
        config.settle(Path::new("/x")).unwrap();
        assert_eq!(config.absent, ["*.pem", r"/w\*/keys/*", "/etc/*.key"]);
        config.absent = vec!["{a,b".to_owned()];
        assert!(config.settle(Path::new("/w")).is_err());
    }

    #[test]
    fn layers_are_relative_to_the_directory_of_the_file() {
        let text = "[[mounts]]\ndestination = \"m\"\ntype = \"overlay\"\n\
            options = [\"lower=a\", \"lower=/b\", \"upper=memory:1M\", \"ro\"]\n";
        let mut config: Config = toml::from_str(text).unwrap();
        config.settle(Path::new("/w")).unwrap();
        let text = config.mounts[0].text();
        assert_eq!(text, "/w/m=overlay,lower=/w/a,lower=/b,upper=memory:1M,ro");
    }
}
