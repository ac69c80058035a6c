// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explains why a run is refused if its own rules could hold alone, but not together with those
//! that are kept with its view.

use super::config::Config;
use super::rules::REPLACE;
use openpath_run::Refusal;
use std::path::{Path, PathBuf};

/// The rules of a run, and those that are kept with its view.
pub(super) struct AddedRules {
    view: String,
    own: Config,
    kept: Config,
}

/// A rule: its option and its path.
type Rule = (&'static str, PathBuf);

impl AddedRules {
    pub(super) fn new(view: &str, own: &Config, kept: &Config) -> AddedRules {
        AddedRules {
            view: view.to_owned(),
            own: own.clone(),
            kept: kept.clone(),
        }
    }

    /// The refusal for a plan of both that [`openpath_run::Plan::check`] refused because of `why`.
    pub(super) fn explain(&self, cwd: &Path, why: Refusal) -> Refusal {
        let alone = self.own.plan(cwd).and_then(|plan| plan.check());
        if alone.is_err() {
            return why;
        }
        let view = &self.view;
        let (own, kept) = (rules(&self.own), rules(&self.kept));
        let pairs = own
            .iter()
            .flat_map(|one| kept.iter().map(move |two| (one, two)));
        let mut pairs = pairs.filter(|(one, two)| exclude(one, two) || exclude(two, one));
        let text = match pairs.next() {
            Some(((option, path), (kept, place))) => format!(
                "{option} {} contradicts `{kept} {}`, which is kept with the view {view}: \
                 {REPLACE}",
                path.display(),
                place.display()
            ),
            None => format!("{why}; a rule is kept with the view {view}: {REPLACE}"),
        };
        Refusal::new(why.kind(), text)
    }
}

/// The rules for paths.
fn rules(config: &Config) -> Vec<Rule> {
    let hidden = config.hide.iter().chain(&config.hide_try);
    let hidden = hidden.map(|path| ("--hide", path.clone()));
    let mounts = config.mounts.iter();
    let mounts = mounts.map(|mount| ("--mount", PathBuf::from(&mount.destination)));
    let others = config.opened().into_iter().chain(config.fixed());
    hidden.chain(others).chain(mounts).collect()
}

/// Whether the first rule leaves the second without effect.
fn exclude((option, path): &Rule, (other, inner): &Rule) -> bool {
    let covers = matches!(*option, "--hide" | "--pass") || path == inner;
    // A mount may be protected.
    let pair = (*option, *other);
    let agree = option == other || matches!(pair, ("--ro", "--mount") | ("--mount", "--ro"));
    covers && !agree && inner.starts_with(path)
}
