// SPDX-License-Identifier: MIT OR Apache-2.0
//! Escapes paths for printing, so that control characters and invisible ones show and a terminal
//! does not obey them.

use std::fmt::Write as _;

/// Unicode's categories `Cf`, `Zl` and `Zp` (Unicode 16): characters that are not seen, or turn the
/// order of those around them.
const FORMAT: [(char, char); 23] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{2064}'),
    ('\u{2066}', '\u{206f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{fff9}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0001}', '\u{e0001}'),
    ('\u{e0020}', '\u{e007f}'),
    // Fillers, which are letters by their category.
    ('\u{115f}', '\u{1160}'),
    ('\u{3164}', '\u{3164}'),
];

/// Whether a character other than a control character is not seen as one, or turns the order of
/// others.
#[must_use]
pub fn is_invisible(letter: char) -> bool {
    let is_in = |(first, last): &(char, char)| (*first..=*last).contains(&letter);
    FORMAT.iter().any(is_in)
}

/// A path for a reader: control characters, which a terminal might obey, and what is no text are
/// written as `\xHH`, other characters that are not seen as `\u{HHHH}`.
#[must_use]
pub fn printable(path: &[u8]) -> String {
    let mut text = String::new();
    for part in path.utf8_chunks() {
        for letter in part.valid().chars() {
            if letter.is_control() || letter == '\\' {
                let mut buf = [0; 4];
                for byte in letter.encode_utf8(&mut buf).bytes() {
                    // A string takes all that is written to it.
                    write!(text, "\\x{byte:02x}").ok();
                }
            } else if is_invisible(letter) {
                write!(text, "\\u{{{:x}}}", u32::from(letter)).ok();
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

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn characters_that_are_not_seen_are_escaped() {
        let name = "a\u{202e}b\u{200b}c\u{2028}d\u{e0041}\u{85}é";
        let want = r"a\u{202e}b\u{200b}c\u{2028}d\u{e0041}\xc2\x85é";
        assert_eq!(printable(name.as_bytes()), want);
    }
}
