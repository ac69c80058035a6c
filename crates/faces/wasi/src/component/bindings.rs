// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates the Rust traits of `wasi:filesystem` from its interface files, with the resource types
//! and the error of this crate.
#![allow(
    missing_docs,
    reason = "generated from the interface, whose words they would repeat"
)]

wasmtime::component::bindgen!({
    path: "wit",
    world: "openpath:wasi/files",
    imports: { default: async | trappable },
    trappable_error_type: {
        "wasi:filesystem/types.error-code" => crate::component::Error,
    },
    with: {
        "wasi:io/error": wasmtime_wasi_io::bindings::wasi::io::error,
        "wasi:io/streams": wasmtime_wasi_io::bindings::wasi::io::streams,
        "wasi:clocks/wall-clock": wasmtime_wasi::p2::bindings::clocks::wall_clock,
        "wasi:filesystem/types.descriptor": crate::component::Descriptor,
        "wasi:filesystem/types.directory-entry-stream": crate::component::Listing,
    },
});
