// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses the part of a view that the kernel serves where it cannot serve all of it: for an
//! ordinary user, and for root with rules of names. The part is a large directory, over which one
//! overlay lies. Our mount serves the rest.
//!
//! # Rules
//! R1. The part of an ordinary user belongs to the user and the user's group: in the view's user
//!     namespace the kernel can give files no other owner.
//! R2. No mount of the host is at or below it, as the kernel refuses such a lower directory.
//! R3. No rule concerns it. The overlay knows no rules of names, and only our mount holds them.
//! R4. Directories that openpath keeps to itself may lie in it. An empty mount covers them, and as
//!     the overlay renames no directory of the real tree, none above them can be moved away.

use crate::absent::Absent;
use crate::engine::Engine;
use crate::guard;
use crate::host_mounts::HostMounts;
use crate::kernel_overlay::layers::shown;
use crate::plan::{LayerShown, Part, Plan};
use openpath_commit::{PathBytes, Refusal, RefusalKind};
use rustix::fs::{AtFlags, CWD, FileType};
use std::path::Path;

/// What the kernel serves of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServedByKernel {
    /// All of it.
    Whole,
    /// This directory.
    Part(Part),
    /// Nothing: there is no directory for a part.
    Nothing,
}

/// The plan with the part that the kernel serves, if it is to serve one.
///
/// # Errors
/// There is no directory for it; one that openpath keeps to itself cannot be made.
pub(crate) fn with_part(plan: &Plan) -> Result<Plan, Refusal> {
    let mut plan = plan.clone();
    if !plan.wants_part {
        return Ok(plan);
    }
    let part = choose(&plan)?.ok_or_else(no_part)?;
    for dir in &part.own {
        guard::make(dir.path()).map_err(|why| {
            let text = format!("{} cannot be kept out of reach", dir.path().display());
            Refusal::step(&text, why)
        })?;
    }
    plan.masked.extend(part.own.iter().cloned());
    plan.part = Some(part);
    Ok(plan)
}

/// There is no directory for a part.
pub(crate) fn no_part() -> Refusal {
    let text = match rustix::process::geteuid().is_root() {
        true => {
            "--engine kernel with rules of names is for a working directory with no mount and no \
             rule in it: leave it out, or start the run elsewhere"
        }
        false => {
            "--engine kernel of an ordinary user is for a working directory of that user and \
             group, with no mount and no rule in it: leave it out, or start the run elsewhere"
        }
    };
    Refusal::new(RefusalKind::Unsupported, text)
}

impl Plan {
    /// What the kernel serves of the view, with `--engine kernel`.
    ///
    /// # Errors
    /// The mounts of the host cannot be read; what openpath keeps to itself would pass.
    pub fn served_by_kernel(&self) -> Result<ServedByKernel, Refusal> {
        let plan = self.served_by(Engine::Kernel);
        if !plan.wants_part {
            return Ok(ServedByKernel::Whole);
        }
        Ok(choose(&guard::guard(&plan)?)?.map_or(ServedByKernel::Nothing, ServedByKernel::Part))
    }
}

/// The topmost directory at or above the working directory that can be a part.
fn choose(plan: &Plan) -> Result<Option<Part>, Refusal> {
    let cwd = std::env::current_dir();
    let cwd = cwd.map_err(|why| Refusal::step("working directory", why))?;
    let mounts = HostMounts::read()?;
    let user_rules = Plan {
        hidden: not_own(plan),
        enforced: Vec::new(),
        ..plan.clone()
    };
    let rules = Absent::new(&user_rules)?;
    let paths = rule_paths(&user_rules);
    let mut found = None;
    for dir in cwd.ancestors() {
        let place = PathBytes::from(dir);
        let Some(id) = id_if_of_user(dir) else {
            break;
        };
        if mounts.iter().any(|(mount, _)| mount.starts_with(dir))
            || paths.iter().any(|rule| touches(rule.path(), dir))
            || plan.own.iter().any(|own| dir.starts_with(own.path()))
            || rules.below(&place)?.is_some()
        {
            break;
        }
        found = Some((place, id));
    }
    let Some((place, id)) = found else {
        return Ok(None);
    };
    let Some((top, mount)) = mounts.mount_of(place.path()) else {
        return Ok(None);
    };
    if shown(top, &mount.kind) != LayerShown::Overlay {
        return Ok(None);
    }
    let mut own = plan.own.clone();
    own.retain(|dir| dir.path().starts_with(place.path()));
    own.sort();
    own.dedup();
    Ok(Some(Part {
        flags: mount.flags,
        id,
        own,
        place,
    }))
}

/// The paths that the user hides. One that openpath keeps to itself is hidden once more then.
fn not_own(plan: &Plan) -> Vec<PathBytes> {
    let mut own = plan.own.clone();
    let mut hidden = plan.hidden.clone();
    hidden.retain(|path| match own.iter().position(|dir| dir == path) {
        Some(at) => {
            own.swap_remove(at);
            false
        }
        None => true,
    });
    hidden
}

/// The paths that rules name.
fn rule_paths(plan: &Plan) -> Vec<PathBytes> {
    let extra = plan.extra.iter().map(|extra| &extra.place);
    let all = plan.hidden.iter().chain(&plan.read_only).chain(extra);
    let all = all.chain(&plan.read_only_if_any).chain(&plan.write_through);
    all.chain(&plan.pass).chain(&plan.masked).cloned().collect()
}

fn touches(rule: &Path, dir: &Path) -> bool {
    rule.starts_with(dir) || dir.starts_with(rule)
}

/// Device and inode of a directory that may be a part (R1).
fn id_if_of_user(dir: &Path) -> Option<(u64, u64)> {
    let user = rustix::process::geteuid();
    let group = rustix::process::getegid().as_raw();
    let stat = rustix::fs::statat(CWD, dir, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    let is_of_user = user.is_root() || (stat.st_uid, stat.st_gid) == (user.as_raw(), group);
    (is_dir && is_of_user).then_some((stat.st_dev, stat.st_ino))
}
