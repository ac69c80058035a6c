// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run is to be, as a file (TOML) and as options say it.
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

use openpath_run::{Net, PathBytes, Plan, Refusal, Share, spec};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What a run is to be. Paths are from the file's directory on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// What changes are kept in: `memory`, `memory:SIZE`, or a directory.
    pub(crate) upper: Option<String>,
    /// Name to keep the view under.
    pub(crate) name: Option<String>,
    pub(crate) rw: Vec<PathBuf>,
    pub(crate) ro: Vec<PathBuf>,
    pub(crate) hide: Vec<PathBuf>,
    pub(crate) absent: Vec<String>,
    pub(crate) pass: Vec<PathBuf>,
    /// The kernel keeps writes back.
    #[serde(rename = "write-back")]
    pub(crate) write_back: bool,
    /// Locks of files are answered by the server.
    pub(crate) locks: bool,
    /// The kernel's requests are read, also where it has rings for them.
    #[serde(rename = "no-rings")]
    pub(crate) no_rings: bool,
    /// What the command shares with the host.
    pub(crate) share: Vec<Share>,
    /// The network of the command.
    pub(crate) net: Net,
    pub(crate) mounts: Vec<Mount>,
}

/// A tree in the view, in the words of the OCI's runtime configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mount {
    destination: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(default)]
    options: Vec<String>,
}

impl Config {
    /// Reads a file.
    pub(crate) fn read(file: &Path) -> Result<Config, String> {
        let said = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
        let text = std::fs::read_to_string(file).map_err(|why| said(&why))?;
        let mut config: Config = toml::from_str(&text).map_err(|why| said(&why))?;
        let file = std::path::absolute(file).map_err(|why| said(&why))?;
        config.settle(file.parent().unwrap_or(Path::new("/")));
        Ok(config)
    }

    /// Takes all paths from `dir` on.
    pub(crate) fn settle(&mut self, dir: &Path) {
        let paths = [&mut self.rw, &mut self.ro, &mut self.hide, &mut self.pass];
        for path in paths.into_iter().flatten() {
            *path = dir.join(&*path);
        }
        let whole = |path: &mut String| *path = dir.join(&*path).display().to_string();
        let memory = |upper: &str| upper == "memory" || upper.starts_with("memory:");
        if let Some(upper) = self.upper.as_mut().filter(|upper| !memory(upper)) {
            whole(upper);
        }
        for mount in &mut self.mounts {
            whole(&mut mount.destination);
            if let Some(source) = &mut mount.source {
                whole(source);
            }
            for option in &mut mount.options {
                let layer = option.split_once('=');
                let layer = layer.filter(|(key, path)| match *key {
                    "lower" => !path.is_empty(),
                    "upper" => !path.is_empty() && !memory(path),
                    _ => false,
                });
                if let Some((key, path)) = layer {
                    *option = format!("{key}={}", dir.join(path).display());
                }
            }
        }
    }

    /// The plan; what the run's name adds to it is not its matter.
    pub(crate) fn plan(&self, cwd: &Path) -> Result<Plan, Refusal> {
        let all = |paths: &[PathBuf]| -> Result<Vec<PathBytes>, Refusal> {
            paths.iter().map(|path| spec::place(cwd, path)).collect()
        };
        let hidden = self.hide.iter().map(|path| spec::names(cwd, path));
        let mut plan = Plan {
            write_through: all(&self.rw)?,
            read_only: all(&self.ro)?,
            hidden: hidden.collect::<Result<Vec<_>, _>>()?.concat(),
            absent: self.absent.clone(),
            write_back: self.write_back,
            locks: self.locks,
            no_rings: self.no_rings,
            share: self.share.clone(),
            net: self.net,
            ..Plan::default()
        };
        plan.pass.extend(all(&self.pass)?);
        for hidden in &plan.hidden {
            let passes = |pass: &&PathBytes| hidden.path().starts_with(pass.path());
            if let Some(pass) = plan.pass.iter().find(passes) {
                let (hidden, pass) = (hidden.path().display(), pass.path().display());
                let text =
                    format!("{hidden} cannot be hidden: {pass} passes, and no rule holds in it");
                return Err(Refusal::new(text));
            }
        }
        for mount in &self.mounts {
            plan.extra.push(spec::extra(cwd, &mount.text())?);
        }
        if let Some(upper) = &self.upper {
            plan.upper = spec::upper(cwd, upper)?;
        }
        Ok(plan)
    }
}

impl Mount {
    /// As an option says it.
    fn text(&self) -> String {
        let mut text = format!("{}={}", self.destination, self.kind);
        if let Some(source) = &self.source {
            text += &format!(":{source}");
        }
        self.options
            .iter()
            .fold(text, |text, word| text + "," + word)
    }

    /// From what an option says.
    pub(crate) fn parse(text: &str) -> Result<Mount, String> {
        let (destination, tree) = text
            .split_once('=')
            .ok_or_else(|| format!("`{text}` is no mount: write DIR=mem, DIR=host:PATH or ..."))?;
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

#[cfg(test)]
mod tests {
    use super::{Config, Mount};
    use openpath_run::{Source, Upper};
    use std::path::Path;

    #[test]
    fn the_example_is_a_plan() {
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
            Source::Memory {
                size: Some(256 << 20)
            }
        );
        let again: Config = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
        assert_eq!(again.plan(Path::new("/w")).unwrap(), plan);
    }

    #[test]
    fn what_passes_cannot_be_hidden() {
        let text = "hide = [\"/x/y\", \"/proc/openpath\"]\n";
        let config: Config = toml::from_str(text).unwrap();
        let why = config.plan(Path::new("/w")).unwrap_err().to_string();
        assert!(
            why.contains("/proc/openpath") && why.contains("/proc passes"),
            "{why}"
        );
    }

    #[test]
    fn what_is_not_known_is_refused() {
        assert!(toml::from_str::<Config>("read-write = []\n").is_err());
        assert!(Mount::parse("/x").is_err());
        let mount = Mount::parse("/x=host:/y,ro").unwrap();
        assert_eq!(mount.text(), "/x=host:/y,ro");
    }

    #[test]
    fn layers_are_taken_from_the_files_directory_on() {
        let text = "[[mounts]]\ndestination = \"m\"\ntype = \"overlay\"\n\
            options = [\"lower=a\", \"lower=/b\", \"upper=memory:1M\", \"ro\"]\n";
        let mut config: Config = toml::from_str(text).unwrap();
        config.settle(Path::new("/w"));
        let text = config.mounts[0].text();
        assert_eq!(text, "/w/m=overlay,lower=/w/a,lower=/b,upper=memory:1M,ro");
    }
}
