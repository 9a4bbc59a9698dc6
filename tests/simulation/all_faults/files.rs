//! Files of movements that come twice: under another name, or first in part and then corrected. They are imported by
//! the program itself.

use super::super::auditor::Effect;
use super::super::books::Level;
use super::trial::Trial;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::Command;

/// Lines of a file.
const LINES: usize = 3;

/// A file that was imported once. One that was refused whole may be brought again.
#[derive(Clone, Debug)]
pub struct BroughtFile {
    name: String,
    lines: Vec<(Level, i64)>,
    is_partial: bool,
}

impl Trial {
    /// Imports a file of movements; the last line of a partial one is spoiled.
    pub async fn file(&mut self, is_partial: bool) {
        let mut levels: Vec<Level> = self.truth.keys().cloned().collect();
        let mut lines = Vec::new();
        while lines.len() < LINES && !levels.is_empty() {
            let at =
                usize::try_from(self.hands.between(0, i64::try_from(levels.len()).unwrap() - 1)).unwrap();
            let level = levels.swap_remove(at);
            let there = self.truth[&level].max(0);
            let (comes, out) = (self.hands.between(1, 9), self.hands.between(1, 2).min(there));
            let units = if out == 0 || self.hands.percent(60) { comes } else { -out };
            lines.push((level, units));
        }
        let file = BroughtFile { name: format!("receipts-{}", self.names), lines, is_partial };
        self.names += 1;
        let (name, mut expected) = (format!("{}.csv", file.name), file.lines.clone());
        let mut text = csv(&file.lines);
        if is_partial {
            let (last, _) = expected.pop().expect("a file has lines");
            text = format!("{}{},{},?\n", csv(&expected), quoted(&last.0), last.1);
        }
        let is_taken = self.import(&name, &text, is_partial, &expected).await;
        self.brought = is_taken.then_some(file);
    }

    /// Imports the file again, under another name or corrected. If the corrected file is refused, a person brings its
    /// new line alone.
    pub async fn file_again(&mut self) {
        let Some(file) = self.brought.take() else { return };
        self.count("files brought again");
        if !file.is_partial {
            let copy = if self.hands.percent(50) { "goods" } else { &file.name };
            self.import(&format!("{copy} (1).csv"), &csv(&file.lines), false, &[]).await;
            return;
        }
        let new = &file.lines[LINES - 1..];
        if !self.import(&format!("{}.csv", file.name), &csv(&file.lines), false, new).await {
            self.import(&format!("{}-rest.csv", file.name), &csv(new), false, new).await;
        }
    }

    /// Imports a text as a file; returns false if nothing was taken. Only these lines may be taken.
    async fn import(&mut self, name: &str, text: &str, is_partial: bool, expected: &[(Level, i64)]) -> bool {
        self.world.rest().await;
        let before = self.world.last_change().await;
        let path = self.world.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
        command.arg("--config").arg(self.world.config_file()).args(["quantity", "import"]).arg(&path);
        if is_partial {
            command.arg("--partial");
        }
        let output = command.output().unwrap();
        let taken = self.world.inserted_since(before).await;
        let mut open = expected.to_vec();
        for change in &taken {
            let body: Value = serde_json::from_str(&change.body).unwrap();
            let line = (
                (super::super::audit::text(&body["sku"]), super::super::audit::whole(&body["warehouse_id"])),
                super::super::audit::whole(&body["delta"]),
            );
            let Some(at) = open.iter().position(|one| *one == line) else {
                let said = String::from_utf8_lossy(&output.stderr);
                self.broken(format!("{name}: {line:?} was taken again as {}: {said}", change.key));
                return true;
            };
            let (level, units) = open.swap_remove(at);
            self.goods_moved(&level, units);
            self.inserted(&change.key, "quantity.adjust", &json!({"sku": level.0, "warehouse_id": level.1}));
            self.auditor(|auditor| auditor.levels.queued(&change.key, &level, Effect::Add(units)));
        }
        self.count("files");
        !taken.is_empty()
    }
}

fn csv(lines: &[(Level, i64)]) -> String {
    let mut text = String::from("sku,warehouse_id,delta\n");
    for ((sku, warehouse), units) in lines {
        writeln!(text, "{},{warehouse},{units}", quoted(sku)).expect("a string takes every text");
    }
    text
}

fn quoted(sku: &str) -> String {
    format!("\"{}\"", sku.replace('"', "\"\""))
}
