// SPDX-License-Identifier: MIT OR Apache-2.0
//! Charges a tenant for a lock request that waits without a thread. The request counts as a lock,
//! so that waits are limited as locks are.

use crate::tenant::TenantRef;
use openpath_abi::Errno;
use std::sync::Arc;

/// What a waiter without a thread has paid; given back when it is dropped.
#[derive(Default)]
pub(crate) struct WaiterCharge(Option<TenantRef>);

impl WaiterCharge {
    /// One lock's.
    ///
    /// # Errors
    /// `ENOLCK`: as many locks as the tenant may have.
    pub(super) fn pay(tenant: &TenantRef) -> Result<Self, Errno> {
        tenant.charge_locks(1)?;
        Ok(Self(Some(tenant.clone())))
    }

    /// Whether it is paid: only waiters without a thread pay.
    pub(super) fn is_paid(&self) -> bool {
        self.0.is_some()
    }

    /// Whether that tenant has paid it.
    pub(super) fn is_of(&self, tenant: &TenantRef) -> bool {
        let own = self.0.as_ref();
        own.is_some_and(|own| Arc::ptr_eq(own.tenant(), tenant.tenant()))
    }

    /// Whether it pays for a lock, which is done now.
    pub(super) fn spend(&mut self) -> bool {
        self.0.take().is_some()
    }
}

impl Drop for WaiterCharge {
    fn drop(&mut self) {
        if let Some(tenant) = &self.0 {
            tenant.uncharge_locks(1);
        }
    }
}
