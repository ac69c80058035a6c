// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel and the server agree on when a mount begins.

use fuser::{InitFlags, KernelConfig};

/// Most that one request writes or reads ahead.
const ONCE_MAX: u32 = 1 << 20;
/// Requests that the kernel may have under way in the background.
const BACKGROUND: u16 = 64;
/// What is asked of the kernel, each where it has it.
const WANTED: [InitFlags; 8] = [
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_NO_OPEN_SUPPORT,
    InitFlags::FUSE_NO_OPENDIR_SUPPORT,
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_ASYNC_DIO,
];

/// Asks for what is wanted (`FUSE_INIT`).
pub(crate) fn agree(config: &mut KernelConfig, writeback: bool) {
    for flag in WANTED {
        // What the kernel does not have it does without.
        let _has = config.add_capabilities(flag);
    }
    if writeback {
        let _has = config.add_capabilities(InitFlags::FUSE_WRITEBACK_CACHE);
    }
    let _was = config.set_max_write(ONCE_MAX);
    if let Err(most) = config.set_max_readahead(ONCE_MAX) {
        let _was = config.set_max_readahead(most);
    }
    let _was = config.set_max_background(BACKGROUND);
}
