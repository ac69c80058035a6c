// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trees that others change too: the requests of the core to their backends.

#![forbid(unsafe_code)]

mod backend;
mod confirm;
mod counts;
mod forget;
mod listeners;
mod locks;
mod moved;
mod passing;
mod races;
mod tries;
