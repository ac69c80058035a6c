// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resolves and checks the rules of a command: those of its options and its configuration file, and
//! those that are kept with its view.
//!
//! # Rules
//! R1. A path that does not exist is an error, unless the option allows it: such a path is mostly a
//!     slip, and does not hide what the user means.
//! R2. Kept rules have paths without links. If such a path has become a link, or is needed and
//!     gone, the rule cannot hold any more, and the run is refused: a command that changed the tree
//!     meanwhile must not choose what a run may change.
//! R3. New rules add to the kept ones. A rule that would loosen a kept one is refused.

use super::config::{Config, Mount};
use openpath_run::{Engine, Limits, Net, PathBytes, Plan, Refusal, spec};
use std::path::{Component, Path, PathBuf};

/// How to loosen a kept rule.
pub(super) const REPLACE: &str = "give all rules again with --replace-rules";

/// The directories of a configuration that the command may change, with their options.
type Named = Vec<(&'static str, PathBuf)>;

impl Config {
    /// Resolves each path; returns the directories that options name to be changed or mounted.
    ///
    /// # Errors
    /// R1; a path with `..` that leads nowhere; a pattern.
    pub(super) fn resolve(&mut self) -> Result<Named, Refusal> {
        let named = [self.named(), self.uppers()].concat();
        self.check_patterns()?;
        for path in &mut self.rw {
            directory("--rw ", path)?;
            *path = place(path)?;
        }
        for path in &mut self.pass {
            if path.metadata().is_err_and(|why| is_missing(&why)) {
                let path = path.display();
                return Err(Refusal::usage(format!(
                    "--pass {path}: there is no such path: make it first, or leave the option out"
                )));
            }
            *path = place(path)?;
        }
        for mount in &mut self.mounts {
            mount.resolve()?;
        }
        let places: Vec<_> = self
            .mounts
            .iter()
            .map(|mount| mount.destination.clone())
            .collect();
        let mounted = |path: &Path| places.iter().any(|place| path.starts_with(place));
        for path in &mut self.ro {
            let missing = path.metadata().is_err_and(|why| is_missing(&why));
            if missing && !mounted(path) {
                let path = path.display();
                return Err(Refusal::usage(format!(
                    "--ro {path}: there is no such path: use --ro-try to keep the command from \
                     making it"
                )));
            }
            *path = place(path)?;
        }
        for path in &mut self.ro_try {
            *path = place(path)?;
        }
        for path in &self.hide {
            let missing = path.symlink_metadata().is_err_and(|why| is_missing(&why));
            if missing && !mounted(path) {
                let path = path.display();
                return Err(Refusal::usage(format!(
                    "--hide {path}: there is no such path: use --hide-try to keep the command from \
                     making it"
                )));
            }
        }
        for paths in [&mut self.hide, &mut self.hide_try] {
            *paths = names(paths)?;
        }
        Ok(named)
    }

    fn named(&self) -> Named {
        let rw = self.rw.iter().map(|path| ("--rw", path.clone()));
        let pass = self.pass.iter().map(|path| ("--pass", path.clone()));
        let mounts = self.mounts.iter().flat_map(|mount| {
            let place = PathBuf::from(&mount.destination);
            std::iter::once(place).chain(mount.read())
        });
        let mounts = mounts.map(|path| ("--mount", path));
        rw.chain(pass).chain(mounts).collect()
    }

    /// The upper directories of mounts. Opening one follows links on the way to it, which the
    /// command must not be able to change.
    pub(super) fn uppers(&self) -> Named {
        let uppers = self.mounts.iter().filter_map(Mount::upper);
        uppers.map(|path| ("--mount", path)).collect()
    }

    /// Refuses patterns in rules for paths: they would hide nothing.
    fn check_patterns(&self) -> Result<(), Refusal> {
        for (option, paths) in [
            ("--rw", &self.rw),
            ("--ro", &self.ro),
            ("--ro-try", &self.ro_try),
            ("--hide", &self.hide),
            ("--hide-try", &self.hide_try),
            ("--pass", &self.pass),
        ] {
            for path in paths {
                let found = |above: &&Path| above.symlink_metadata().is_ok();
                let found = path.ancestors().find(found).unwrap_or(Path::new("/"));
                let missing = path.strip_prefix(found).unwrap_or(path);
                let missing = missing.as_os_str().as_encoded_bytes();
                let sign = missing.iter().find(|byte| b"*?[".contains(byte));
                if let Some(sign) = sign {
                    return Err(Refusal::usage(format!(
                        "{option} {}: there is no such path, and `{}` is no pattern here: use \
                         --absent, or name each path",
                        path.display(),
                        char::from(*sign)
                    )));
                }
            }
        }
        Ok(())
    }

    /// The rules of this (resolved) configuration that are kept with its view: those that restrict
    /// or open paths, and nothing about how the view is made. Later their paths need not exist.
    ///
    /// # Errors
    /// A path that is not UTF-8.
    pub(super) fn as_rules(&self) -> Result<String, Refusal> {
        let rules = Config {
            ro: Vec::new(),
            ro_try: [&self.ro[..], &self.ro_try].concat(),
            hide: Vec::new(),
            hide_try: [&self.hide[..], &self.hide_try].concat(),
            limit: self.limits().all().to_vec(),
            upper: None,
            name: None,
            engine: Engine::default(),
            write_back: false,
            live: false,
            locks: false,
            no_rings: false,
            ..self.clone()
        };
        let failed = |why| Refusal::step("the rules cannot be kept with the view", why);
        toml::to_string(&rules).map_err(failed)
    }

    /// The rules that were kept with the view `name`.
    ///
    /// # Errors
    /// R2; this version cannot read the rules.
    pub(super) fn from_rules(name: &str, text: &str) -> Result<Config, Refusal> {
        let rules: Config = toml::from_str(text).map_err(|why| {
            let text = format!("the rules of the view {name} cannot be read");
            Refusal::usage(format!("{text} ({}): {REPLACE}", why.message()))
        })?;
        let read = rules.mounts.iter().flat_map(Mount::read);
        let needed = rules.rw.iter().chain(&rules.pass).cloned();
        for path in needed.chain(read) {
            if path.symlink_metadata().is_err_and(|why| is_missing(&why)) {
                let path = path.display();
                return Err(Refusal::usage(format!(
                    "a rule of the view {name} cannot hold, because there is no {path} any more: \
                     make it again, or {REPLACE}"
                )));
            }
        }
        for (_, path) in rules.named().iter().chain(rules.fixed().iter()) {
            if place(path)? != *path {
                let path = path.display();
                return Err(Refusal::usage(format!(
                    "a rule of the view {name} cannot hold, because {path} leads elsewhere now: \
                     {REPLACE}"
                )));
            }
        }
        Ok(rules)
    }

    /// Adds the rules that are kept with the view `name` (R3).
    ///
    /// # Errors
    /// A new rule contradicts a kept one: both are about the same path, or about a path within the
    /// other.
    pub(super) fn add_kept(&mut self, name: &str, kept: Config) -> Result<(), Refusal> {
        for (mine, theirs) in [(&*self, &kept), (&kept, self)] {
            for (option, open) in mine.opened() {
                let known = theirs.opened().iter().any(|(_, path)| *path == open);
                let fixed = theirs.fixed();
                let mut fixed = fixed.iter().filter(|(_, fixed)| open.starts_with(fixed));
                if let Some((_, fixed)) = fixed.next().filter(|_| !known) {
                    return Err(Refusal::usage(format!(
                        "{option} {} contradicts --ro {}, and only one of them is kept with the \
                         view {name}: {REPLACE}",
                        open.display(),
                        fixed.display()
                    )));
                }
            }
        }
        self.check_passes(name, &kept)?;
        self.check_sources(name, &kept)?;
        // Names each field, because a field that is not added is a forgotten rule.
        let Config {
            rw,
            ro,
            ro_try,
            hide,
            hide_try,
            absent,
            pass,
            mounts,
            share,
            net,
            limit,
            upper: _,
            name: _,
            engine: _,
            write_back: _,
            live: _,
            locks: _,
            no_rings: _,
        } = kept;
        add(&mut self.rw, rw);
        add(&mut self.ro, ro);
        add(&mut self.ro_try, ro_try);
        add(&mut self.hide, hide);
        add(&mut self.hide_try, hide_try);
        add(&mut self.absent, absent);
        add(&mut self.pass, pass);
        add(&mut self.mounts, mounts);
        add(&mut self.share, share);
        if net == Net::None {
            self.net = net;
        }
        let (mut limits, mut known) = (self.limits(), Limits::default());
        known.add(&limit);
        if let Some((limit, kept)) = limits.loosened(&known) {
            return Err(Refusal::usage(format!(
                "--limit {limit} loosens `{kept}`, which is kept with the view {name}: {REPLACE}"
            )));
        }
        limits.add(&limit);
        self.limit = limits.all().to_vec();
        Ok(())
    }

    /// Refuses a new `--pass` where a kept pattern applies.
    fn check_passes(&self, name: &str, kept: &Config) -> Result<(), Refusal> {
        let own = Plan::default().pass;
        let is_new = |pass: &&PathBuf| {
            let is_own = own.iter().any(|own| own.path() == **pass);
            !is_own && !kept.pass.contains(pass)
        };
        for pass in self.pass.iter().filter(is_new) {
            let mut reaching = kept.absent.iter().filter(|glob| may_reach(glob, pass));
            if let Some(glob) = reaching.next() {
                return Err(Refusal::usage(format!(
                    "--pass {}: `--absent {glob}` is kept with the view {name}, and would not hold \
                     in what passes: {REPLACE}",
                    pass.display()
                )));
            }
        }
        Ok(())
    }

    /// Refuses new mounts that show under another path what a kept rule hides, or that let the
    /// command change there what a kept rule protects.
    fn check_sources(&self, view: &str, kept: &Config) -> Result<(), Refusal> {
        let meet = |a: &Path, b: &Path| a.starts_with(b) || b.starts_with(a);
        for mount in self
            .mounts
            .iter()
            .filter(|mount| !kept.mounts.contains(mount))
        {
            let refused = |source: &Path, rule: String| {
                Err(Refusal::usage(format!(
                    "--mount {}: `{rule}` is kept with the view {view}, and would not hold for {} \
                     under another path: {REPLACE}",
                    mount.destination,
                    source.display()
                )))
            };
            let upper = mount.upper().map(|upper| place(&upper)).transpose()?;
            for source in mount.read().into_iter().chain(upper.clone()) {
                let mut hidden = kept.hide.iter().chain(&kept.hide_try);
                if let Some(hidden) = hidden.find(|hidden| meet(&source, hidden)) {
                    return refused(&source, format!("--hide {}", hidden.display()));
                }
                let mut globs = kept.absent.iter().filter(|glob| glob.contains('/'));
                if let Some(glob) = globs.find(|glob| may_reach(glob, &source)) {
                    return refused(&source, format!("--absent {glob}"));
                }
            }
            let host = mount.read().into_iter().filter(|_| mount.kind == "host");
            for source in host.filter(|_| !mount.is_read_only()).chain(upper) {
                let fixed = kept.fixed();
                if let Some((_, fixed)) = fixed.iter().find(|(_, fixed)| meet(&source, fixed)) {
                    return refused(&source, format!("--ro {}", fixed.display()));
                }
            }
        }
        Ok(())
    }

    /// The paths that the command cannot change.
    pub(super) fn fixed(&self) -> Named {
        let fixed = self.ro.iter().chain(&self.ro_try);
        fixed.map(|path| ("--ro", path.clone())).collect()
    }

    /// The paths that the command can change whatever is above them.
    pub(super) fn opened(&self) -> Named {
        let mounts = self.mounts.iter().filter(|mount| !mount.is_read_only());
        let mounts = mounts.map(|mount| ("--mount", PathBuf::from(&mount.destination)));
        let rw = self.rw.iter().map(|path| ("--rw", path.clone()));
        let pass = self.pass.iter().map(|path| ("--pass", path.clone()));
        rw.chain(pass).chain(mounts).collect()
    }
}

/// Whether a pattern may match in a directory: a pattern of a name may match everywhere, a pattern
/// of a path if its part without wildcards is within the directory or above it.
fn may_reach(glob: &str, dir: &Path) -> bool {
    if !glob.contains('/') {
        return true;
    }
    let wild = |part: &Component<'_>| {
        let text = part.as_os_str().to_string_lossy();
        text.contains(['*', '?', '[', '{', '\\'])
    };
    let fixed: PathBuf = Path::new(glob)
        .components()
        .take_while(|part| !wild(part))
        .collect();
    fixed.starts_with(dir) || dir.starts_with(fixed)
}

impl Mount {
    fn is_read_only(&self) -> bool {
        self.options.iter().any(|option| option == "ro")
    }

    /// The directories of the host that the mount shows: its source, or its lower layers.
    fn read(&self) -> Vec<PathBuf> {
        let source = self.source.as_deref().filter(|_| self.kind == "host");
        let lowers = self
            .options
            .iter()
            .filter_map(|option| option.strip_prefix("lower="));
        source
            .into_iter()
            .chain(lowers)
            .map(PathBuf::from)
            .collect()
    }

    /// The directory that takes the changes of the mount, if there is one.
    fn upper(&self) -> Option<PathBuf> {
        let mut uppers = self
            .options
            .iter()
            .filter_map(|option| option.strip_prefix("upper="));
        let upper = uppers.find(|upper| spec::is_memory(upper).is_ok_and(|memory| !memory))?;
        Some(upper.into())
    }

    fn resolve(&mut self) -> Result<(), Refusal> {
        let whole = |path: &str| Ok::<_, Refusal>(spec::utf8(&place(Path::new(path))?)?.to_owned());
        let option = format!("--mount {}=", self.destination);
        directory("--mount ", Path::new(&self.destination))?;
        self.destination = whole(&self.destination)?;
        if self.kind == "host"
            && let Some(source) = &mut self.source
        {
            directory(&format!("{option}host:"), Path::new(source))?;
            *source = whole(source)?;
        }
        for layer in &mut self.options {
            if let Some(lower) = layer.strip_prefix("lower=") {
                directory(&format!("{option}overlay,lower="), Path::new(lower))?;
                *layer = format!("lower={}", whole(lower)?);
            }
        }
        Ok(())
    }
}

/// Adds the items that are missing.
fn add<T: PartialEq>(to: &mut Vec<T>, more: Vec<T>) {
    for one in more {
        if !to.contains(&one) {
            to.push(one);
        }
    }
}

/// Refuses a path that is not a directory; `option` is what the user writes before it.
fn directory(option: &str, path: &Path) -> Result<(), Refusal> {
    let said = |why: &dyn std::fmt::Display| {
        let path = path.display();
        Err(Refusal::usage(format!("{option}{path}: {why}")))
    };
    match path.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => said(&"it is not a directory"),
        Err(why) if is_missing(&why) => said(&"there is no such directory: make it first"),
        Err(why) => said(&why),
    }
}

fn is_missing(why: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    matches!(why.kind(), NotFound | NotADirectory)
}

/// Where an absolute path leads.
fn place(path: &Path) -> Result<PathBuf, Refusal> {
    Ok(spec::resolve(Path::new("/"), path)?.path().to_owned())
}

/// The names and the targets of paths that are hidden.
fn names(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Refusal> {
    let mut all: Vec<PathBuf> = Vec::new();
    for path in paths {
        let names: Vec<PathBytes> = spec::hidden_names(Path::new("/"), path)?;
        add(
            &mut all,
            names.iter().map(|name| name.path().to_owned()).collect(),
        );
    }
    Ok(all)
}
