// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lock-free ground of openpath: every atomic ordering and every raw pointer lives here.
