// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks rule `static`: `vfs` has no state outside its values, so a process can hold many of them.

use super::lexer::is_word;
use super::{Report, Tree};

const RULE: &str = "static";

/// Names in types without state.
const PLAIN: &[&str] = &[
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "bool",
    "char", "str", "static",
];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for file in tree
        .rust()
        .filter(|file| file.path.starts_with("crates/vfs/src/"))
    {
        for (at, line) in file.code() {
            if line.code.contains("thread_local!") {
                report.fail(RULE, &file.path, at, "state of a thread outlives the `Vfs`");
            }
            if let Some(kind) = static_type(&line.code).filter(|kind| !is_plain(kind)) {
                let text = format!(
                    "`{}` may hold state: make it part of the `Vfs`",
                    kind.trim()
                );
                report.fail(RULE, &file.path, at, text);
            }
        }
    }
}

/// The type of a `static` item that starts on this line.
fn static_type(code: &str) -> Option<&str> {
    let mut rest = code.trim_start();
    if let Some(after) = rest.strip_prefix("pub") {
        rest = after.trim_start();
        if rest.starts_with('(') {
            rest = rest.split_once(')')?.1.trim_start();
        }
    }
    let rest = rest.strip_prefix("static ")?;
    let item = rest.split('=').next()?;
    // `static mut` is never plain: its whole text is returned.
    if rest.trim_start().starts_with("mut ") {
        return Some(item);
    }
    Some(item.split_once(':')?.1)
}

fn is_plain(kind: &str) -> bool {
    let mut names = kind
        .split(|c: char| !is_word(c))
        .filter(|name| !name.is_empty());
    names.all(|name| PLAIN.contains(&name) || name.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::check;

    #[test]
    fn state_outside_a_value_is_reported() {
        for text in [
            "static A: AtomicU64 = AtomicU64::new(0);\n",
            "pub(crate) static A: Mutex<Vec<u8>> = x();\n",
            "pub static A: OnceLock<u8> = OnceLock::new();\n",
            "    static mut A: u8 = 0;\n",
            "thread_local! { }\n",
        ] {
            assert_eq!(
                planted(check, &[("crates/vfs/src/x.rs", text)]).len(),
                1,
                "{text}"
            );
            assert_eq!(
                planted(check, &[("crates/sync/src/x.rs", text)]),
                [],
                "{text}"
            );
        }
    }

    #[test]
    fn constant_tables_are_accepted() {
        for text in [
            "static A: [u8; 256] = x();\n",
            "pub static A: &[(&'static str, u32)] = &[];\n",
            "fn f(a: &'static Mutex) {}\n",
            "#[cfg(test)]\nstatic A: AtomicU64 = AtomicU64::new(0);\n",
        ] {
            assert_eq!(
                planted(check, &[("crates/vfs/src/x.rs", text)]),
                [],
                "{text}"
            );
        }
    }
}
