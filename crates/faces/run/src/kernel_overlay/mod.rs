// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the view as mounts of the kernel's overlayfs (`--engine kernel`).
//!
//! # Shape
//! One overlay lies over the root, and one over each mount of the host that the view shows. All of
//! them have their changes in one upper tree, at the path that they have in the view, so a view can
//! go on with either engine. The upper tree is the directory of the view or a tmpfs that is
//! attached nowhere; no mount of the view leads to it.
//!
//! # Map
//! | module | process | what |
//! |---|---|---|
//! | `layers` | front | which directories get an overlay |
//! | [`crate::kernel_upper`] | server | prepares the upper tree, and opens it at the end |
//! | `mounts` | helper | makes the overlays and attaches them |
//! | `pins` | helper | keeps directories above other mounts in place |
//! | `parts` | front | which part of an ordinary user's view gets an overlay |
//! | [`crate::kernel_part`] | server | lends that part, and takes it back at the end |
//!
//! # Rules
//! R1. The server holds the upper tree before the overlays are made and after the command is gone,
//!     and leaves it alone in between.
//! R2. The time of the begin is recorded before the first overlay is made. Whatever the view takes
//!     is compared with that time at a commit (`openpath_commit::record_kernel_run`): overlayfs
//!     copies files that others have replaced meanwhile.
//! R3. The directories that every view hides are covered by an empty mount, and a view in which one
//!     above them is its own is refused. Directories above a mount are kept in place (`pins`), but
//!     in this mount namespace and copies of it alone. So what the upper tree has at each such
//!     place is recorded, and no view is committed in which that changed
//!     (`openpath_commit::Places`).
//! R4. The marks of the upper tree are trusted ones if the view's are. Then the root's overlay
//!     makes and follows redirects.
//!
//! Divergences: L139 to L145.

pub(crate) mod layers;
pub(crate) mod mounts;
pub(crate) mod parts;
pub(crate) mod pins;
