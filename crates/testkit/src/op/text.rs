// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes and parses byte strings, such as paths, as one word of an operation's line.
//!
//! # Rules
//! * A graphic ASCII character stands for itself, except `\` and `"`; any other byte is `\xNN`.
//! * The empty string is `""`.
//! * `\{unit*N}` is `unit` N times, so that long names and long link chains stay readable.
//! * Writing and parsing give the same bytes.

use std::fmt::Write as _;

/// Longest unit that the writer looks for.
const UNIT_MAX: usize = 8;
/// The least number of repeated bytes that is written as a repetition.
const REPEAT_FROM: usize = 20;

/// Writes `bytes` as one word.
pub fn put(bytes: &[u8], out: &mut String) {
    if bytes.is_empty() {
        out.push_str("\"\"");
        return;
    }
    let mut at = 0;
    while at < bytes.len() {
        match repetition(&bytes[at..]) {
            Some((unit, times)) => {
                out.push_str("\\{");
                plain(&bytes[at..at + unit], out);
                let _ = write!(out, "*{times}}}");
                at += unit * times;
            }
            None => {
                plain(&bytes[at..=at], out);
                at += 1;
            }
        }
    }
}

fn plain(bytes: &[u8], out: &mut String) {
    for &b in bytes {
        if b.is_ascii_graphic() && !matches!(b, b'\\' | b'"' | b'*' | b'{' | b'}') {
            out.push(char::from(b));
        } else {
            let _ = write!(out, "\\x{b:02x}");
        }
    }
}

/// The shortest unit that `bytes` repeats from its start, and how often.
fn repetition(bytes: &[u8]) -> Option<(usize, usize)> {
    (1..=UNIT_MAX.min(bytes.len())).find_map(|unit| {
        let head = &bytes[..unit];
        let times = bytes.chunks(unit).take_while(|c| *c == head).count();
        (times > 1 && times * unit >= REPEAT_FROM).then_some((unit, times))
    })
}

/// Parses a word.
///
/// # Errors
/// A message about the fault.
pub fn get(word: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    if word == "\"\"" {
        return Ok(out);
    }
    let mut rest = word;
    while let Some(c) = rest.chars().next() {
        if c != '\\' {
            out.push(u8::try_from(c).map_err(|_| format!("not a byte: {c}"))?);
            rest = &rest[c.len_utf8()..];
        } else if let Some(tail) = rest.strip_prefix("\\x") {
            let hex = tail.get(..2).ok_or("short \\x")?;
            out.push(u8::from_str_radix(hex, 16).map_err(|e| e.to_string())?);
            rest = &tail[2..];
        } else {
            let tail = rest.strip_prefix("\\{").ok_or("a lone \\")?;
            let (body, after) = tail.split_once('}').ok_or("no }")?;
            let (unit, times) = body.rsplit_once('*').ok_or("no * before }")?;
            let times: usize = times.parse().map_err(|_| format!("not a count: {times}"))?;
            out.extend(get(unit)?.repeat(times));
            rest = after;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_round_trip() {
        let long = [b"dot/".repeat(41), b"f".to_vec()].concat();
        let name = [b"d/".to_vec(), vec![b'a'; 256]].concat();
        for bytes in [
            &b""[..],
            b"a/b",
            b"a b\\\"\n\xff*{}",
            &long,
            &name,
            &[0x20; 40],
        ] {
            let mut word = String::new();
            super::put(bytes, &mut word);
            assert!(!word.contains(' '));
            assert_eq!(super::get(&word).as_deref(), Ok(bytes), "{word}");
        }
    }
}
