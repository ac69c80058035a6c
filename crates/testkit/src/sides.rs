// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a case on the two sides of the oracle, and finds the first difference. One side is the host
//! kernel; the other is openpath (in memory, over the host, through FUSE, or as an overlay), or the
//! host kernel once more.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use openpath_abi::Errno;
use openpath_vfs::Sysctl;
use serde::{Deserialize, Serialize};

use crate::accesses;
use crate::case::{self, Case, Divergence, Snapshots, Trace};
use crate::host::HostWorld;
use crate::host::fuse::Serve;
use crate::ours;
use crate::plain::Trust;
use crate::served;
use crate::skips::Counts;

/// Name of the side over a file system of the host.
pub const OVER_HOST: &str = "ours over the host";
/// The same, with confirmed names and the host's access times.
pub const OVER_HOST_CONFIRMED: &str = "ours over the host, which is asked";

/// Name of the side that is the host kernel on a tree served by openpath.
pub const SERVED: &str = "ours through FUSE";
/// The same with the kernel's writeback cache.
pub const SERVED_LATER: &str = "ours through FUSE, written back";
/// Name of the side over an overlay.
pub const STACKED: &str = "ours stacked";
/// Name of the side over an overlay of host file systems.
pub const STACKED_OVER_HOST: &str = "ours stacked over the host";

/// How often a difference is checked again.
const AGAIN: usize = 10;

/// What is compared with the host kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Against {
    /// The host kernel once more: the oracle checks itself.
    Host,
    /// openpath, with the switch of this number off; 0 for none.
    Ours(u32),
    /// The same, with the root of each case on a tmpfs of the host under this trust.
    OverHost(u32, Trust),
    /// The host kernel, on an openpath tree that is served this way.
    Served(Serve),
    /// The same, with the case's first tree below an overlay on both sides; if the flag is set,
    /// with trees of the host.
    Stacked(u32, bool),
}

/// Both sides.
#[derive(Debug)]
pub struct Sides {
    world: HostWorld,
    against: Against,
    sysctl: Sysctl,
}

/// The results of one case.
#[derive(Debug)]
pub struct Checked {
    /// The run on the host.
    pub host: Trace,
    /// The other run, unless it panicked.
    pub other: Option<Trace>,
    /// The first difference.
    pub divergence: Option<Divergence>,
}

thread_local! {
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps the message of a panic instead of printing it.
fn capture_panics() {
    std::panic::set_hook(Box::new(|info| {
        PANIC.with(|p| *p.borrow_mut() = info.to_string().replace('\n', " "));
    }));
}

impl Sides {
    /// Makes both sides; the process may do nothing else afterwards.
    ///
    /// # Errors
    /// Those of leaving the mount namespace.
    pub fn new(against: Against) -> Result<Sides, Errno> {
        // There is no `/proc` after the process leaves its mount namespace.
        let sysctl = ours::sysctl();
        let world = HostWorld::enter()?;
        capture_panics();
        Ok(Sides {
            world,
            against,
            sysctl,
        })
    }

    /// Runs a case on both sides and compares.
    ///
    /// # Errors
    /// Those of starting the case on the host.
    pub fn check(
        &self,
        case: &Case,
        when: Snapshots,
        counts: &mut Counts,
    ) -> Result<Checked, Errno> {
        let mut host = case::run(&mut self.world.begin()?, case, when, None);
        let (name, other) = match self.against {
            Against::Host => {
                let trace = case::run(&mut self.world.begin()?, case, when, Some(&host));
                ("again", Ok(trace))
            }
            Against::Served(serve) => {
                let mut world = self.world.begin_served(serve)?;
                let mut trace = case::run(&mut world, case, when, Some(&host));
                served::leave_out(serve, case, [&mut host, &mut trace], counts);
                let name = match serve {
                    Serve::Writeback => SERVED_LATER,
                    _ => SERVED,
                };
                (name, Ok(trace))
            }
            Against::Ours(switch) => ("ours", self.ours(case, when, &host, switch, None)),
            Against::OverHost(switch, trust) => {
                let ours = self.ours(case, when, &host, switch, Some(trust));
                let name = match trust {
                    Trust::Revalidate | Trust::None => OVER_HOST_CONFIRMED,
                    Trust::Exclusive | Trust::Notify => OVER_HOST,
                };
                (name, ours)
            }
            Against::Stacked(switch, over_host) => {
                let trust = over_host.then_some(Trust::Exclusive);
                let name = if over_host {
                    STACKED_OVER_HOST
                } else {
                    STACKED
                };
                (name, self.ours(case, when, &host, switch, trust))
            }
        };
        let (other, divergence) = match other {
            Ok(other) => {
                let mut seen = Counts::default();
                let mut d = case::compare(case, ("host", &host), (name, &other), &mut seen);
                if d.is_some()
                    && let Against::OverHost(_, trust) = self.against
                {
                    let (mut a, mut b) = (host.clone(), other.clone());
                    if accesses::leave_out(trust, [&mut a, &mut b]) {
                        seen = Counts::default();
                        seen.add("L29");
                        d = case::compare(case, ("host", &a), (name, &b), &mut seen);
                    }
                }
                counts.merge(&seen);
                (Some(other), d)
            }
            Err(text) => {
                let text = format!("    {name}: {text}\n");
                (
                    None,
                    Some(Divergence {
                        at: case.ops.len(),
                        kind: "panic",
                        text,
                    }),
                )
            }
        };
        Ok(Checked {
            host,
            other,
            divergence,
        })
    }

    /// Whether a difference is stable.
    ///
    /// Other activity of the machine can change the host's answer. A scoped lookup fails with
    /// `EAGAIN` when anything was renamed or mounted meanwhile, and a walk that starts again counts
    /// its links twice. A tick of the clock between two times that one call sets makes them differ.
    /// So a difference counts unless the host's answer changes and then fits.
    ///
    /// # Errors
    /// Those of starting the case on the host.
    pub fn stays(&self, case: &Case, when: Snapshots, first: &Checked) -> Result<bool, Errno> {
        for _ in 0..AGAIN {
            let again = self.check(case, when, &mut Counts::default())?;
            // Against itself, either run of the host may have been disturbed.
            let itself = matches!(self.against, Against::Host | Against::Served(_));
            let changed = itself || !again.host.same(&first.host);
            if changed && again.divergence.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the host's answer becomes `right` when the case runs again: other activity of the
    /// machine can change it, as above.
    ///
    /// # Errors
    /// Those of starting the case on the host.
    pub fn host_turns(
        &self,
        case: &Case,
        when: Snapshots,
        right: impl Fn(&Trace) -> bool,
    ) -> Result<bool, Errno> {
        for _ in 0..AGAIN {
            if right(&case::run(&mut self.world.begin()?, case, when, None)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn ours(
        &self,
        case: &Case,
        when: Snapshots,
        host: &Trace,
        switch: u32,
        over_host: Option<Trust>,
    ) -> Result<Trace, String> {
        let run = || -> Result<Trace, String> {
            let mut world =
                ours::World::new(self.sysctl, switch).map_err(|e| format!("no Vfs: {e}"))?;
            if let Some(trust) = over_host {
                world.over(&self.world, trust);
            }
            let [first, inspector] = world.tasks().map_err(|e| format!("no task: {e}"))?;
            let begun = ours::Ours::new(&world, first, &inspector);
            let mut side = begun.map_err(|e| format!("no root: {e}"))?;
            Ok(case::run(&mut side, case, when, Some(host)))
        };
        let panicked = |_| Err(PANIC.with(|p| p.borrow().clone()));
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(panicked)
    }
}
