// SPDX-License-Identifier: MIT OR Apache-2.0
//! Declares the modules for files that a commit makes: how they are copied, how they get their
//! privileges, and how they are recognized later.

pub(crate) mod copy;
pub(crate) mod privileges;
pub(crate) mod stamp;
