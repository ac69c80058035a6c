// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements proxy tasks: with one, a worker thread makes calls on behalf of another task, whose
//! thread goes on.
//!
//! # Kernel analogue
//! The workers of `io_uring`, which borrow the credentials, root and files of the submitter. Here
//! no thread writes to another's task: files are opened in the proxy's own table, and the owner
//! installs them ([`Task::file`], [`Task::install`]).
//!
//! # Rules
//! R1. A proxy acts as its owner did when it was made or last updated, and for the same tenant.
//! R2. An update changes all or nothing.

use crate::task::Task;
use openpath_abi::Errno;
use std::sync::Arc;

impl Task {
    /// A task with an empty descriptor table that acts as this one does now. Another thread may
    /// have it.
    ///
    /// # Errors
    /// `ENOMEM` when there are no pins left.
    pub fn proxy_task(&self) -> Result<Self, Errno> {
        self.core.heed_pivots();
        self.sibling()
    }

    /// Makes `proxy` act as this task does now: its root and working directory, credentials,
    /// umask, limit on descriptors, namespace and tenant. Its table stays its own.
    ///
    /// An unchanged setting costs a comparison.
    ///
    /// # Errors
    /// `EXDEV`: it is of another `Vfs`. `ENOMEM` when there are no pins left; then it acts as
    /// before.
    pub fn update_proxy(&self, proxy: &Self) -> Result<(), Errno> {
        let (mine, its) = (&self.core, &proxy.core);
        if !Arc::ptr_eq(&mine.vfs, &its.vfs) {
            return Err(Errno::EXDEV);
        }
        mine.heed_pivots();
        // R2: steps that can fail come first.
        let places = [(&mine.root, &its.root), (&mine.cwd, &its.cwd)];
        let mut pins = [None, None];
        for ((now, had), pin) in places.into_iter().zip(&mut pins) {
            let (now, had) = (now.get(), had.get());
            if now != had {
                // This task holds it, so it is still the same place.
                *pin = its.pins.pin_now(now.mount, now.dentry);
                if pin.is_none() {
                    pins.into_iter()
                        .flatten()
                        .for_each(|pin| its.pins.release(pin));
                    return Err(Errno::ENOMEM);
                }
            }
        }
        let [root, cwd] = pins;
        if let Some(root) = root {
            its.set_root(root);
        }
        if let Some(cwd) = cwd {
            its.set_cwd(cwd);
        }
        its.pivots_seen.set(mine.pivots_seen.get());
        its.umask.set(mine.umask.get());
        its.nofile.set(mine.nofile.get());
        if mine.cred_serial() != its.cred_serial() {
            its.act_like(mine);
        }
        if mine.namespace_id() != its.namespace_id() {
            its.set_namespace(mine.namespace());
        }
        if !Arc::ptr_eq(mine.tenant().tenant(), its.tenant().tenant()) {
            proxy.set_tenant(&self.tenant())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::Task;

    #[test]
    fn a_task_may_go_to_another_thread() {
        const fn is_send<T: Send>() {}
        is_send::<Task>();
    }
}
