//! The figures of all runs, formatted as a table or as JSON. It measures nothing.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use crate::statistics::median;

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Milliseconds,
    PerSecond,
    Megabytes,
    Kilobytes,
    Seconds,
    Percent,
    Count,
}

impl Unit {
    fn symbol(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms",
            Self::PerSecond => "/s",
            Self::Megabytes => "MB",
            Self::Kilobytes => "KB",
            Self::Seconds => "s",
            Self::Percent => "%",
            Self::Count => "",
        }
    }

    fn more_is_better(self) -> bool {
        match self {
            Self::PerSecond => true,
            Self::Milliseconds
            | Self::Megabytes
            | Self::Kilobytes
            | Self::Seconds
            | Self::Percent
            | Self::Count => false,
        }
    }
}

/// One measured value.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) label: String,
    pub(crate) unit: Unit,
    pub(crate) value: f64,
    /// The value that is aimed at: the least rate, or the largest value of other units.
    pub(crate) target: Option<f64>,
}

/// The values of a figure in all runs, for Bellwether and for the program beside it.
#[derive(Debug)]
struct Row {
    label: String,
    unit: Unit,
    target: Option<f64>,
    bellwether: Vec<f64>,
    other: Vec<f64>,
}

impl Row {
    /// Whether the target is met.
    fn is_met(&self) -> Option<bool> {
        let (value, target) = (median(&self.bellwether)?, self.target?);
        Some(if self.unit.more_is_better() { value >= target } else { value <= target })
    }

    /// The cells of the target: its value, and whether it is met.
    fn target_cells(&self) -> [String; 2] {
        let sign = if self.unit.more_is_better() { "≥" } else { "≤" };
        let target = self.target.map(|target| format!("{sign} {}", format_target(target, self.unit)));
        let met = self.is_met().map(|met| if met { "yes" } else { "NO" }.to_owned());
        [target.unwrap_or_default(), met.unwrap_or_default()]
    }

    /// How many times better Bellwether is.
    fn ratio(&self) -> Option<f64> {
        let (bellwether, other) = (median(&self.bellwether)?, median(&self.other)?);
        let (better, worse) =
            if self.unit.more_is_better() { (bellwether, other) } else { (other, bellwether) };
        (worse > 0.0).then(|| better / worse)
    }
}

/// The program that figures belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Bellwether,
    Kubernetes,
    Prometheus,
}

impl Side {
    fn heading(self) -> &'static str {
        match self {
            Self::Bellwether => "bellwether",
            Self::Kubernetes => "kube-apiserver + etcd",
            Self::Prometheus => "Prometheus agent",
        }
    }

    fn json_key(self) -> &'static str {
        match self {
            Self::Bellwether => "bellwether",
            Self::Kubernetes => "kubernetes",
            Self::Prometheus => "prometheus",
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
    /// The program beside Bellwether, if one was measured.
    other: Option<Side>,
}

impl Report {
    /// Adds the figures of one run of one program. A report has at most one program beside Bellwether.
    pub(crate) fn add(&mut self, side: Side, figures: Vec<Figure>) {
        if side != Side::Bellwether {
            self.other = Some(side);
        }
        for Figure { label, unit, value, target } in figures {
            let found = self.rows.iter().position(|row| row.label == label);
            let index = found.unwrap_or(self.rows.len());
            if found.is_none() {
                self.rows.push(Row { label, unit, target, bellwether: Vec::new(), other: Vec::new() });
            }
            let Some(row) = self.rows.get_mut(index) else { continue };
            match side {
                Side::Bellwether => row.bellwether.push(value),
                Side::Kubernetes | Side::Prometheus => row.other.push(value),
            }
        }
    }

    pub(crate) fn table(&self, notes: &[String]) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let mut header = vec!["", Side::Bellwether.heading()];
        let has_targets = self.rows.iter().any(|row| row.target.is_some());
        if has_targets {
            header.extend(["target", "met"]);
        }
        if let Some(other) = self.other {
            header.extend([other.heading(), "better by"]);
        }
        table.set_header(header);
        for row in &self.rows {
            let mut cells = vec![row.label.clone(), format_amount(median(&row.bellwether), row.unit)];
            if has_targets {
                cells.extend(row.target_cells());
            }
            if self.other.is_some() {
                cells.push(format_amount(median(&row.other), row.unit));
                cells.push(row.ratio().map_or("–".to_owned(), |ratio| format!("{}×", format_number(ratio))));
            }
            table.add_row(cells);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let notes: String = notes.iter().map(|note| format!("  {note}\n")).collect();
        format!("{}\n\n{notes}", table.trim_fmt())
    }

    pub(crate) fn json(&self, notes: &[String]) -> Value {
        let ours = Side::Bellwether.json_key();
        let theirs = self.other.unwrap_or(Side::Kubernetes).json_key();
        let side = |values: &[f64]| median(values).map(|median| json!({"median": median, "rounds": values}));
        let figures: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "figure": row.label,
                    "unit": row.unit.symbol(),
                    "moreIsBetter": row.unit.more_is_better(),
                    "target": row.target,
                    "met": row.is_met(),
                    ours: side(&row.bellwether),
                    theirs: side(&row.other),
                    "betterBy": row.ratio(),
                })
            })
            .collect();
        json!({"figures": figures, "notes": notes})
    }
}

fn format_amount(value: Option<f64>, unit: Unit) -> String {
    let format = |value: f64| match unit {
        Unit::Count => format!("{value:.0}"),
        unit => format!("{} {}", format_number(value), unit.symbol()),
    };
    value.map_or("–".to_owned(), format)
}

/// Formats a target, which is short: it has few digits.
fn format_target(value: f64, unit: Unit) -> String {
    format!("{value} {}", unit.symbol()).trim_end().to_owned()
}

/// Formats a number with three significant digits, as far as it has decimals.
fn format_number(value: f64) -> String {
    match value.abs() {
        small if small < 10.0 => format!("{value:.2}"),
        middling if middling < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(label: &str, unit: Unit, value: f64) -> Vec<Figure> {
        vec![Figure { label: label.into(), unit, value, target: None }]
    }

    #[test]
    fn better_is_more_per_second_and_less_of_other_units() {
        for (unit, bellwether, kubernetes, expected) in [
            (Unit::PerSecond, 5000.0, 1000.0, Some(5.0)),
            (Unit::Milliseconds, 2.0, 10.0, Some(5.0)),
            (Unit::Megabytes, 30.0, 15.0, Some(0.5)),
            (Unit::Kilobytes, 0.0, 15.0, None),
        ] {
            let (bellwether, other) = (vec![bellwether], vec![kubernetes]);
            let row = Row { label: String::new(), unit, target: None, bellwether, other };
            assert_eq!(row.ratio(), expected, "{unit:?}");
        }
    }

    #[test]
    fn target_is_met_by_more_per_second_and_less_of_other_units() {
        for (unit, value, target, cells, met) in [
            (Unit::PerSecond, 5000.0, Some(5000.0), ["≥ 5000 /s", "yes"], Some(true)),
            (Unit::PerSecond, 4999.0, Some(5000.0), ["≥ 5000 /s", "NO"], Some(false)),
            (Unit::Milliseconds, 20.0, Some(20.0), ["≤ 20 ms", "yes"], Some(true)),
            (Unit::Count, 1.0, Some(0.0), ["≤ 0", "NO"], Some(false)),
            (Unit::Count, 1.0, None, ["", ""], None),
        ] {
            let mut report = Report::default();
            report.add(Side::Bellwether, vec![Figure { label: "figure".into(), unit, value, target }]);
            assert_eq!(report.rows[0].target_cells(), cells, "{value} {unit:?}");
            assert_eq!(report.json(&[])["figures"][0]["met"], json!(met));
            assert_eq!(report.table(&[]).contains("target"), target.is_some());
        }
    }

    #[test]
    fn table_has_medians_and_ratios() {
        let mut report = Report::default();
        for value in [1.0, 100.0, 2.0] {
            report.add(Side::Bellwether, figure("create", Unit::Milliseconds, value));
            report.add(Side::Kubernetes, figure("create", Unit::Milliseconds, value * 4.0));
        }
        let table = report.table(&["a note".to_owned()]);
        for expected in ["2.00 ms", "8.00 ms", "4.00×", "a note"] {
            assert!(table.contains(expected), "no {expected:?} in {table}");
        }
    }

    #[test]
    fn program_beside_bellwether_is_named() {
        for (side, heading, key) in [
            (Side::Kubernetes, "kube-apiserver + etcd", "kubernetes"),
            (Side::Prometheus, "Prometheus agent", "prometheus"),
        ] {
            let mut report = Report::default();
            report.add(side, figure("memory", Unit::Megabytes, 7.0));
            assert!(report.table(&[]).contains(heading), "{side:?}");
            assert_eq!(report.json(&[])["figures"][0][key]["median"], 7.0);
        }
    }

    #[test]
    fn table_without_kubernetes_has_no_columns_for_it() {
        let mut report = Report::default();
        report.add(Side::Bellwether, figure("create", Unit::PerSecond, 12.0));
        assert!(!report.table(&[]).contains("better by"));
        let json = report.json(&[]);
        assert_eq!(json["figures"][0]["bellwether"]["median"], 12.0);
        assert_eq!(json["figures"][0]["kubernetes"], Value::Null);
    }
}
