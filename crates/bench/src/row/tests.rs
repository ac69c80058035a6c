// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the verdicts of rows: what the contract (`bars`) requires decides them, and nothing else.

use super::*;

fn samples(value: f64) -> Samples {
    Samples::new(vec![value; 9], 0)
}

#[test]
fn planted_shortfall_fails_check() {
    let good = Row::faster("open-close d1", &samples(50.0), "tmpfs", &samples(550.0));
    let bad = Row::faster("open-close d1", &samples(500.0), "tmpfs", &samples(550.0));
    assert_eq!(
        (good.verdict, good.ok, good.ratio),
        (Verdict::Ok, Some(true), Some(11.0))
    );
    assert_eq!((bad.verdict, bad.ok), (Verdict::Short, Some(false)));
    assert!(shortfalls(std::slice::from_ref(&good)).is_empty());
    assert_eq!(shortfalls(&[good, bad]).len(), 1);
}

#[test]
fn growth_is_bounded_from_above() {
    let flat = Row::growth("big-dir rename", &samples(101.0), "10", &samples(100.0));
    let steep = Row::growth("big-dir rename", &samples(1e6), "10", &samples(100.0));
    assert_eq!(
        (flat.verdict, steep.verdict),
        (Verdict::Goal, Verdict::Short)
    );
}

#[test]
fn unmeasured_row_fails() {
    let row = Row::missing("failed-open ext4 d1", "no ext4");
    assert_eq!(row.verdict, Verdict::NotMeasured);
    assert_eq!(shortfalls(std::slice::from_ref(&row)).len(), 1);
    let empty = Row::faster("stat d1", &samples(1.0), "tmpfs", &Samples::new(vec![], 8));
    assert_eq!((empty.verdict, empty.dropped), (Verdict::NotMeasured, 8));
    let few = Row::faster(
        "stat d1",
        &samples(1.0),
        "tmpfs",
        &Samples::new(vec![9.0; 2], 8),
    );
    assert_eq!((few.verdict, few.windows), (Verdict::NotMeasured, 2));
}

#[test]
fn rows_outside_contract_fail_nothing() {
    let extra = Row::count("getppid", "ns", 9e9);
    assert_eq!(extra.verdict, Verdict::Info);
    assert!(shortfalls(&[extra]).is_empty());
}

#[test]
fn stalls_do_not_improve_cold_row() {
    let windows = |value: f64| {
        (0..10)
            .map(|i| if i < 4 { value } else { 50.0 * value })
            .collect()
    };
    let stalled = Samples::new(windows(9_000.0), 0);
    let row = Row::faster_cold("cold open-close d16", &samples(4_000.0), "tmpfs", &stalled);
    assert_eq!((row.ratio, row.verdict), (Some(2.25), Verdict::Short));
}

#[test]
fn spread_windows_are_noted() {
    let wild = Samples::new((1..40).map(f64::from).collect(), 0);
    let row = Row::faster("stat d1", &samples(1.0), "tmpfs", &wild);
    assert_eq!(row.note.as_deref(), Some("unsteady"));
    let calm = Row::faster("stat d1", &samples(1.0), "tmpfs", &samples(20.0));
    assert_eq!(calm.note, None);
}

#[test]
fn counts_are_judged_without_a_peer() {
    assert_eq!(
        Row::count("allocations stat d1", "", 0.0).verdict,
        Verdict::Goal
    );
    assert_eq!(
        Row::count("allocations stat d1", "", 1.0).verdict,
        Verdict::Short
    );
    assert_eq!(
        Row::count("locked open-close d1", "", 2.0).verdict,
        Verdict::Ok
    );
}

#[test]
fn json_and_table_have_every_row() {
    let rows = [
        Row::faster("stat d1", &samples(20.0), "tmpfs", &samples(500.0)).with_note("a note"),
        Row::missing("failed-open ext4 d1", "no ext4"),
    ];
    let (mut json, mut table) = (Vec::new(), Vec::new());
    write_json(&mut json, &rows).unwrap();
    write_table(&mut table, &rows).unwrap();
    let json = String::from_utf8(json).unwrap();
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(json.lines().count(), 2);
    assert_eq!(
        (&first["ratio"], &first["ok"]),
        (&25.0.into(), &true.into())
    );
    assert_eq!(first["peer"]["label"], "tmpfs");
    let table = String::from_utf8(table).unwrap();
    assert!(table.contains("a note") && table.contains("NOT MEASURED"));
    assert_eq!(table.lines().count(), 3);
}
