// SPDX-License-Identifier: MIT OR Apache-2.0
//! Declares the calls on leases and delegations. `lease` has the table that they change.

mod calls;
mod report;

pub use report::LeaseInfo;
