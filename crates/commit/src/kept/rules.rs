// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stores the rules of `openpath run`, such as hidden and read-only paths, with a view, so that
//! each later command in it has them.
//!
//! # States
//! None (no run had rules yet, or the view is older than this file), Kept.
//!
//! # Rules
//! R1. They are written while the view is locked, before its command starts.
//! R2. A run that was told other rules than are there by then does not start: it would undo what
//!     another one has said meanwhile.

use super::KeptView;
use super::name;
use super::safe_path::IfMissing;
use crate::host::view_dir::ViewDir;
use crate::report::refusal::{Refusal, RefusalKind};
use serde::{Deserialize, Serialize};

/// The rules, in the directory of a view.
pub(super) const RULES: &str = "rules.toml";
/// No rules are longer, in bytes.
const RULES_MAX: u64 = 16 << 20;

/// The rules of a view, before a run and from then on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptRules {
    /// What [`KeptView::rules`] gave.
    pub before: Option<String>,
    /// Whatever was kept is replaced.
    pub replaces: bool,
    /// What the next run is given.
    pub now: String,
    /// The command of the run, which a list of views shows.
    pub command: String,
}

impl KeptView {
    /// The rules that are kept with the view.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn rules(&self) -> Result<Option<String>, Refusal> {
        read(self.view_dir())
    }
}

/// The rules of the view of this name; none if there is no such view.
///
/// # Errors
/// A name that cannot be one; the directory belongs to another user; they cannot be read.
pub fn rules_of(view: &str) -> Result<Option<String>, Refusal> {
    match name::open(view, IfMissing::ReturnNone)? {
        Some(dir) => read(&dir),
        None => Ok(None),
    }
}

/// Keeps the rules and the command of a run in the directory of its view, which is locked (R1, R2).
pub fn update(dir: &ViewDir, rules: &KeptRules) -> Result<(), Refusal> {
    let known = read(dir)?;
    if known.as_ref() == Some(&rules.now) {
        // Of the last run, or of an attempt with another engine.
        super::note_command(dir, &rules.command);
        return Ok(());
    }
    if !rules.replaces && known != rules.before {
        let text = format!(
            "the rules of the view in {} were changed meanwhile: run it again",
            dir.path().display()
        );
        return Err(Refusal::new(RefusalKind::Conflict, text));
    }
    super::note_command(dir, &rules.command);
    let written = dir.replace(RULES, rules.now.as_bytes());
    written.map_err(|why| Refusal::step("the rules cannot be kept with the view", why))
}

fn read(dir: &ViewDir) -> Result<Option<String>, Refusal> {
    let failed = |why: &dyn std::fmt::Display| {
        let dir = dir.path().display();
        Refusal::new(
            RefusalKind::Damaged,
            format!(
                "the rules of the view in {dir} cannot be read ({why}): say them anew with \
             --replace-rules"
            ),
        )
    };
    let text = dir.read(RULES, RULES_MAX).map_err(|why| failed(&why))?;
    let text = text.map(String::from_utf8).transpose();
    text.map_err(|why| failed(&why))
}
