// SPDX-License-Identifier: MIT OR Apache-2.0
//! Proof of openpath: the oracle against the host kernel, fixtures, stress.
