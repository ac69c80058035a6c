// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes one step down a path, from a directory to the entry of a name in it: fast by cached
//! entries, or with references (`walk_component`, `lookup_fast`, `step_into`).

use super::{Mode, PathIds, Reason, Walk, WalkError, lflag};
use crate::dcache::{FindResult, NAME_MAX};
use crate::name::NameKey;
use crate::object::{dflag, mflag};
use crate::steps::Check;
use crate::tenant::count;
use openpath_abi::Errno;
use openpath_sync::{Pin, Sample};

/// Flags of an entry that need more than a plain step.
const SPECIAL: u64 = dflag::NEGATIVE | dflag::MOUNTED | dflag::REVALIDATE;

impl Walk<'_> {
    /// Goes into `text[start..end]`, across whatever is mounted there; may end on a link.
    ///
    /// # Errors
    /// `ENAMETOOLONG`, `ENOENT` and what the backend meets; `EXDEV` (mount not to be crossed).
    #[inline(always)]
    pub(crate) fn step(&mut self, text: &[u8], start: usize, end: usize) -> Result<(), WalkError> {
        let key = NameKey::of(self.dcache().key, text, start, end);
        if self.straight
            && let Some(done) = self.step_cached(key, text, start, end)
        {
            return done;
        }
        self.step_slow(key, text, start, end)
    }

    /// A fast step into a cached entry, or a name known to be absent; `None` if it is neither.
    #[inline(always)]
    pub(super) fn step_cached(
        &mut self,
        key: NameKey,
        text: &[u8],
        start: usize,
        end: usize,
    ) -> Option<Result<(), WalkError>> {
        let (dcache, dir) = (self.dcache(), self.at.dentry);
        let (child, sample) = match dcache.look_now(dir, key, &text[start..end]) {
            FindResult::Entry(child, _, sample) => (child, sample),
            FindResult::Absent(_) if self.is_absent(end - start) => {
                return Some(Err(Errno::ENOENT.into()));
            }
            FindResult::Absent(_) | FindResult::Unsure => return None,
        };
        // R1: the child was sampled before this question about its parent.
        if !dcache.at(dir).word().is_unchanged(self.at_dentry) {
            return Some(Err(self.restart(Reason::NamesChanged)));
        }
        if !sample.needs_slow_path(SPECIAL) {
            self.at.dentry = child;
            self.at_dentry = sample;
            return Some(Ok(()));
        }
        Some(self.step_special(child, sample, text, start, end))
    }

    /// Whether a name of this length with a proved miss does not exist: the directory stood at is
    /// complete, and was during the search.
    #[inline]
    fn is_absent(&self, length: usize) -> bool {
        let absent = self.at_dentry.has(dflag::COMPLETE)
            && length <= NAME_MAX
            && self
                .dcache()
                .at(self.at.dentry)
                .word()
                .is_unchanged(self.at_dentry);
        if absent {
            self.core.count(count::NEGATIVE_HITS);
        }
        absent
    }

    /// A fast step onto something that is not plain.
    #[inline(never)]
    fn step_special(
        &mut self,
        child: u32,
        sample: Sample,
        text: &[u8],
        start: usize,
        end: usize,
    ) -> Result<(), WalkError> {
        if !sample.is_steady() || sample.has(dflag::REVALIDATE) {
            self.unlazy(if sample.is_steady() {
                Reason::Revalidate
            } else {
                Reason::Busy
            })?;
            let key = NameKey::of(self.dcache().key, text, start, end);
            return self.step_slow(key, text, start, end);
        }
        if sample.has(dflag::NEGATIVE) {
            self.dcache().at(child).touch();
            self.core.count(count::NEGATIVE_HITS);
            return Err(self.refuse(Check::Absent, Errno::ENOENT));
        }
        let at = PathIds {
            mount: self.at.mount,
            dentry: child,
        };
        self.go(at, self.at_mount, sample, None);
        self.cross()
    }

    /// A step that leaves fast mode, if that was not done yet, and asks the backend if need be.
    #[cold]
    #[inline(never)]
    fn step_slow(
        &mut self,
        key: NameKey,
        text: &[u8],
        start: usize,
        end: usize,
    ) -> Result<(), WalkError> {
        if self.at_mount.has(mflag::ABSENT)
            && let Some(done) = self.step_ruled(key, text, start, end)
        {
            return done;
        }
        self.unlazy(Reason::Miss)?;
        let name = &text[start..end];
        self.tell_name(key, name);
        let (pin, sample) = self.child(key, name)?;
        self.core.tell_found(&pin);
        let at = PathIds {
            mount: self.at.mount,
            dentry: pin.dentry(),
        };
        if sample.has(dflag::NEGATIVE) {
            self.core.pins.release(pin);
            return Err(self.refuse(Check::Absent, Errno::ENOENT));
        }
        self.go(at, self.at_mount, sample, Some(pin));
        if sample.has(dflag::MOUNTED) {
            self.cross()
        } else {
            Ok(())
        }
    }

    /// The entry `name` of the directory stood at, pinned, whatever it is; looked up if it is not
    /// cached.
    ///
    /// # Errors
    /// `ENAMETOOLONG`, `ENOENT` (removed directory), what the backend meets, `ENOMEM`.
    pub(crate) fn child(&mut self, key: NameKey, name: &[u8]) -> Result<(Pin, Sample), WalkError> {
        debug_assert!(!self.fast);
        loop {
            let found = match self.mode {
                Mode::Revalidate => FindResult::Unsure,
                _ => self.dcache().look_now(self.at.dentry, key, name),
            };
            if matches!(found, FindResult::Absent(_)) && self.is_absent(name.len()) {
                return Err(self.refuse(Check::Absent, Errno::ENOENT));
            }
            if let FindResult::Entry(child, entry, sample) = found
                && !sample.needs_slow_path(dflag::REVALIDATE)
            {
                let mount = self.mounts().at(self.at.mount).word().sample_steady();
                if let Some(pin) = self.core.pins.try_pin(self.at.mount, mount, child, sample) {
                    self.at_mount = mount;
                    entry.touch();
                    self.core.confirmed.set(0);
                    return Ok((pin, sample));
                }
                if !self.core.pins.has_room() {
                    return Err(self.refuse(Check::Pins, Errno::ENOMEM));
                }
                continue;
            }
            if let Some(found) = self.look_up(key, name)? {
                return Ok(found);
            }
        }
    }

    /// Goes into `text[start..end]` if it is cached and exists (what an `O_CREAT` open tries
    /// first); whether it did.
    ///
    /// # Errors
    /// As [`Walk::step`], but for `ENOENT`.
    pub(crate) fn step_if_positive(
        &mut self,
        text: &[u8],
        start: usize,
        end: usize,
    ) -> Result<bool, WalkError> {
        let key = NameKey::of(self.dcache().key, text, start, end);
        if !self.straight {
            return self.step_if_positive_slowly(key, &text[start..end]);
        }
        let name = &text[start..end];
        let FindResult::Entry(child, _, sample) = self.dcache().look_now(self.at.dentry, key, name)
        else {
            return Ok(false);
        };
        if !self
            .dcache()
            .at(self.at.dentry)
            .word()
            .is_unchanged(self.at_dentry)
        {
            return Err(self.restart(Reason::NamesChanged));
        }
        if !sample.is_steady() || sample.flags() & (dflag::NEGATIVE | dflag::REVALIDATE) != 0 {
            return Ok(false);
        }
        self.go(
            PathIds {
                mount: self.at.mount,
                dentry: child,
            },
            self.at_mount,
            sample,
            None,
        );
        if sample.has(dflag::MOUNTED) {
            self.cross()?;
        }
        Ok(true)
    }

    #[cold]
    fn step_if_positive_slowly(&mut self, key: NameKey, name: &[u8]) -> Result<bool, WalkError> {
        if self.at_mount.has(mflag::ABSENT) {
            self.unlazy(Reason::Rules)?;
            if self.is_absent_by_rule(name)? {
                return Ok(false);
            }
        }
        let FindResult::Entry(child, entry, sample) =
            self.dcache().look_now(self.at.dentry, key, name)
        else {
            return Ok(false);
        };
        if sample.needs_slow_path(dflag::NEGATIVE | dflag::REVALIDATE) {
            return Ok(false);
        }
        let mount = self.mounts().at(self.at.mount).word().sample_steady();
        let Some(pin) = self.core.pins.try_pin(self.at.mount, mount, child, sample) else {
            return Ok(false);
        };
        entry.touch();
        self.tell_name(key, name);
        self.core.tell_found(&pin);
        self.go(
            PathIds {
                mount: self.at.mount,
                dentry: child,
            },
            mount,
            sample,
            Some(pin),
        );
        if sample.has(dflag::MOUNTED) {
            self.cross()?;
        }
        Ok(true)
    }

    /// Leaves fast mode to make a file. The root is dropped first or, with the switch off, counted
    /// like any other place that the walk remembers. A path that did not use the root has none.
    ///
    /// # Errors
    /// As [`Walk::unlazy`].
    pub(crate) fn unlazy_to_create(&mut self) -> Result<(), WalkError> {
        self.unlazy(Reason::Create)?;
        if let Some(root) = self.root
            && !self.core.vfs.config.tuning.root_reset_before_unlazy
        {
            self.dcache().count_reference(root.dentry);
        }
        Ok(())
    }

    /// Tells what the cache knows of a name in the directory stood at.
    #[cold]
    pub(super) fn tell_name(&self, key: NameKey, name: &[u8]) {
        if self.core.is_told() {
            let known = self.dcache().known(self.at.dentry, key, name);
            self.core.tell_name(name, known);
        }
    }

    /// The pin that holds the position, in reference mode.
    pub(crate) fn held(&self) -> Option<&Pin> {
        self.pin.as_ref()
    }

    /// Goes to a place that is pinned already.
    pub(crate) fn enter_pinned(&mut self, at: PathIds, sample: Sample, pin: Pin) {
        self.go(at, self.at_mount, sample, Some(pin));
    }

    /// Enters what is mounted where the walk stands.
    ///
    /// # Errors
    /// As a step across it.
    pub(crate) fn cross_mounts(&mut self) -> Result<(), WalkError> {
        self.cross()
    }

    /// Whether a step may leave the mount it is in.
    pub(super) fn may_leave_mount(&self) -> Result<(), WalkError> {
        if self.wants(lflag::NO_XDEV) {
            Err(self.refuse(Check::MountBoundary, Errno::EXDEV))
        } else {
            Ok(())
        }
    }
}
