// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two tenants of one instance: one uses the same files again and again, the other looks for names
//! that do not exist, each once. What each of them has and did, for `openpath bench tenants`.

use openpath_vfs::{TenantLimits, TenantStats};

use crate::error::Error;
use crate::ours;

/// How much they do.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Files that the quiet tenant uses.
    pub files: u32,
    /// Names that the other one looks for.
    pub names: u32,
    /// Cached names that do not exist, of each at most.
    pub negative_max: u32,
}

/// A tenant and what became of it.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it does.
    pub name: &'static str,
    /// Its figures, in the order to be printed.
    pub figures: Vec<(String, u64)>,
}

/// Runs both, by turns.
///
/// # Errors
/// `Setup` if the tree cannot be built, `Wrong` if a call gives another answer than it must.
pub fn run(load: Load) -> Result<Vec<Row>, Error> {
    // Each absent name is an entry, as with a backend that vouches for nothing.
    let vfs = ours::tuned(|tuning| tuning.complete_directories = false)?;
    let maker = ours::task(&vfs)?;
    for i in 0..load.files {
        ours::touch(&maker, format!("/file-{i}").as_bytes())?;
    }
    vfs.shrink(u32::MAX);
    let limits = TenantLimits {
        negative_max: load.negative_max,
        ..TenantLimits::default()
    };
    let (quiet, flood) = (vfs.tenant(limits), vfs.tenant(limits));
    let (user, guest) = (ours::task(&vfs)?, ours::task(&vfs)?);
    user.set_tenant(&quiet).expect("a tenant of this Vfs");
    guest.set_tenant(&flood).expect("a tenant of this Vfs");
    let wrong = |what: String| Error::Wrong(what);
    const TURNS: u32 = 16;
    for turn in 0..TURNS {
        for i in 0..load.files {
            let path = format!("/file-{i}");
            user.stat(path.as_bytes())
                .map_err(|errno| wrong(format!("stat {path}: {errno}")))?;
        }
        let share = |turn: u32| (u64::from(load.names) * u64::from(turn) / u64::from(TURNS)) as u32;
        for i in share(turn)..share(turn + 1) {
            let path = format!("/no-such-name-{i}");
            if guest.stat(path.as_bytes()).is_ok() {
                return Err(wrong(format!("stat {path}: it is there")));
            }
        }
    }
    let row = |name, stats: &TenantStats| Row {
        name,
        figures: figures(stats),
    };
    Ok(vec![
        row("root", &vfs.root_tenant().stats()),
        row("quiet", &quiet.stats()),
        row("flood", &flood.stats()),
    ])
}

/// All figures by name; reasons that never were are left out.
fn figures(stats: &TenantStats) -> Vec<(String, u64)> {
    let activity = &stats.activity;
    let mut figures: Vec<(String, u64)> = [
        ("tasks", stats.tasks as u64),
        ("positive entries", stats.positive.into()),
        ("negative entries", stats.negative.into()),
        ("bytes of entries", stats.cached_bytes),
        ("positive evicted", stats.evicted_positive),
        ("negative evicted", stats.evicted_negative),
        ("hits", activity.hits),
        ("negative hits", activity.negative_hits),
        ("misses", activity.misses),
        ("opens in place", activity.opens_inline),
        ("opens offloaded", activity.opens_offloaded),
        ("files", stats.inodes),
        ("bytes of files", stats.bytes),
    ]
    .map(|(name, n)| (name.to_owned(), n))
    .to_vec();
    let restarts = activity.restarts.iter();
    figures.extend(restarts.map(|(why, n)| (format!("restart: {why}"), n)));
    figures
}
