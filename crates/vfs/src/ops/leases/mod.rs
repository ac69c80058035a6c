// SPDX-License-Identifier: MIT OR Apache-2.0
//! Declares the modules with the calls on leases and delegations (`calls`) and with their list
//! (`report`). `lease` has the table that they change.

mod calls;
mod report;

pub use report::LeaseInfo;
