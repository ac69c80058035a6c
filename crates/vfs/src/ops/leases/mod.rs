// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls on leases and delegations. What becomes of a lease is in `lease`.

mod calls;
mod report;

pub use report::LeaseInfo;
