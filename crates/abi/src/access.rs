// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the permissions that access(2) and its family are asked about: `F_OK`, `R_OK`, `W_OK`,
//! `X_OK`.

/// Does it exist?
pub const F_OK: u32 = 0;
/// May it be executed or searched?
pub const X_OK: u32 = 1;
/// May it be written?
pub const W_OK: u32 = 2;
/// May it be read?
pub const R_OK: u32 = 4;
