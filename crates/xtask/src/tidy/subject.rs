// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks rule `subject`: a commit's subject is `area: verb ...`, in lower case, with 90 columns at
//! most.

/// `git log --oneline` cuts a longer one.
const COLUMNS_MAX: usize = 90;

/// Checks a subject.
///
/// # Errors
/// A message about the fault.
pub fn check_subject(subject: &str) -> Result<(), String> {
    let Some((areas, what)) = subject.split_once(": ") else {
        return Err("it names no area: write `area: verb ...`".to_owned());
    };
    let is_area = |area: &str| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_/.".contains(c);
        !area.is_empty() && area.chars().all(plain)
    };
    if !areas.split(", ").all(is_area) {
        return Err(format!("`{areas}` is no area, or no list of areas"));
    }
    if !what.starts_with(|c: char| c.is_ascii_lowercase()) || what.ends_with('.') {
        return Err("after the area it begins in lower case, and has no full stop".to_owned());
    }
    let columns = subject.chars().count();
    if columns > COLUMNS_MAX {
        return Err(format!("it has {columns} columns; {COLUMNS_MAX} at most"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_subject;

    #[test]
    fn subjects_need_area_and_lower_case() {
        for fine in [
            "run: limit processes",
            "vfs, mem: check lists",
            ".ci: cache it",
        ] {
            assert_eq!(check_subject(fine), Ok(()), "{fine}");
        }
        let long = format!("run: {}", "x".repeat(90));
        for wrong in [
            "Say what holds",
            "run: Limit processes",
            "run: limit processes.",
            "Run: limit",
            "run and vfs: limit",
            &long,
        ] {
            assert!(check_subject(wrong).is_err(), "{wrong}");
        }
    }
}
