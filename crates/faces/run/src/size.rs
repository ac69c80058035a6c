// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses sizes as they are written on a command line, such as `64M`.

use openpath_commit::Refusal;

/// Bytes in `text`: a number, and `K`, `M`, `G` or `T` for powers of 1024.
///
/// # Errors
/// An invalid size.
pub fn size(text: &str) -> Result<u64, Refusal> {
    let wrong = || Refusal::usage(format!("`{text}` is no size: write 4096, 64M or 2G"));
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let power = match &text[digits.len()..] {
        "" => 0,
        "K" | "k" | "KiB" => 10,
        "M" | "m" | "MiB" => 20,
        "G" | "g" | "GiB" => 30,
        "T" | "t" | "TiB" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << power).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_powers_of_1024() {
        assert_eq!(size("4096").unwrap(), 4096);
        assert_eq!(size("2G").unwrap(), 2 << 30);
        for wrong in ["", "G", "-1", "1.5M", "5X", "99999999999T"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
