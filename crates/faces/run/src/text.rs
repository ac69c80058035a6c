// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names for a reader.

use std::fmt::Write as _;

/// A path for a reader: control characters, which a terminal might obey, and what is no text are
/// written as `\xHH`.
#[must_use]
pub fn text_of(path: &[u8]) -> String {
    let mut text = String::new();
    for part in path.utf8_chunks() {
        for letter in part.valid().chars() {
            if letter.is_control() || letter == '\\' {
                let mut buf = [0; 4];
                for byte in letter.encode_utf8(&mut buf).bytes() {
                    // A string takes all that is written to it.
                    write!(text, "\\x{byte:02x}").ok();
                }
            } else {
                text.push(letter);
            }
        }
        for byte in part.invalid() {
            write!(text, "\\x{byte:02x}").ok();
        }
    }
    text
}
