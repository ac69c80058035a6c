// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entering what is mounted on a directory (`handle_mounts`).

use super::{Fail, Spot, Walk};
use crate::dcache::dflag;
use crate::mount::Cover;

impl Walk<'_> {
    /// From a covered directory to the root of the topmost mount on it.
    ///
    /// # Errors
    /// `EXDEV` if the mount must not be left; [`Fail::Restart`] if mounts changed (fast mode only).
    #[inline(never)]
    pub(super) fn cross(&mut self) -> Result<(), Fail> {
        while self.at_dentry.has(dflag::MOUNTED) {
            if self.fast {
                let (mount, sample, root) = match self.mounts().cover(self.at.mount, self.at.dentry)
                {
                    Cover::None => return Ok(()),
                    Cover::Mount(mount, sample, root) => (mount, sample, root),
                    Cover::Changed => return Err(Fail::Restart),
                };
                if let Err(fail) = self.may_leave_mount() {
                    self.unlazy()?;
                    return Err(fail);
                }
                let dentry = self.dcache().at(root).word().sample();
                if !sample.steady() || !dentry.steady() {
                    return Err(Fail::Restart);
                }
                self.go(
                    Spot {
                        mount,
                        dentry: root,
                    },
                    sample,
                    dentry,
                    None,
                );
                continue;
            }
            let Some((mount, root)) = self.mounts().cover_now(self.at.mount, self.at.dentry) else {
                return Ok(());
            };
            self.may_leave_mount()?;
            let Some(pin) = self.core.pins.pin_now(mount, root) else {
                return Err(Fail::Restart);
            };
            let sample = self.mounts().at(mount).word().sample_steady();
            let dentry = self.dcache().at(root).word().sample_steady();
            self.go(
                Spot {
                    mount,
                    dentry: root,
                },
                sample,
                dentry,
                Some(pin),
            );
        }
        Ok(())
    }
}
