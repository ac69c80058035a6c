// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives the mutex, reader-writer lock and condition variable of loom or shuttle the interface of
//! parking_lot: without poisoning.

use super::may_fail;
#[cfg(loom)]
use loom::sync as model;
pub(crate) use model::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
#[cfg(shuttle)]
use shuttle::sync as model;
use std::sync::{PoisonError, TryLockError, TryLockResult};

/// A guard, poisoned or not.
fn got<G>(attempt: TryLockResult<G>) -> Option<G> {
    match attempt {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The condition variable.
#[derive(Default)]
pub(crate) struct Condvar(model::Condvar);

impl Condvar {
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }
    /// A model has no clock.
    pub(crate) fn wait_for<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        _time: core::time::Duration,
    ) -> MutexGuard<'a, T> {
        self.wait(guard)
    }
    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }
}

/// The mutex.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(model::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(model::Mutex::new(value))
    }
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        may_fail();
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        may_fail();
        got(self.0.try_lock())
    }
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reader-writer lock.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(model::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(model::RwLock::new(value))
    }
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        may_fail();
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        may_fail();
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
    pub(crate) fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        may_fail();
        got(self.0.try_read())
    }
    pub(crate) fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        may_fail();
        got(self.0.try_write())
    }
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
