//! The printed matrix.

use std::path::PathBuf;

use anyhow::Context as _;
use e2e::Flavor;

use super::play::Line;

/// One line per case, for people and for the documents.
pub(crate) fn render(lines: &[Line]) -> String {
    let head =
        ["point", "pass", "story", "process", "left behind", "found by", "end", "ms"].map(str::to_owned);
    let rows = lines.iter().map(|line| {
        let case = &line.case;
        let note = if case.note.is_empty() { String::new() } else { format!(" {}", case.note) };
        [
            case.point(),
            format!("{}{note}", case.pass),
            format!("{:?}", case.story),
            case.victim.as_str().to_owned(),
            line.left.clone(),
            line.found.clone(),
            line.end.clone(),
            line.took.as_millis().to_string(),
        ]
    });
    let rows: Vec<[String; 8]> = std::iter::once(head).chain(rows).collect();
    let widths: Vec<usize> = (0..8).map(|i| rows.iter().map(|row| row[i].len()).max().unwrap_or(0)).collect();
    let mut text = String::from(
        "Books (\"left behind\", \"end\") are charges/refunds/grants by the simulator's ledger; ms is from the death to the \
         last terminal state.\n\n",
    );
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join(" | ").trim_end());
        text.push('\n');
    }
    text
}

/// Keeps the matrix below cargo's target folder; where.
pub(crate) fn keep(flavor: Flavor, text: &str) -> anyhow::Result<PathBuf> {
    let dir = xtask::target_dir().join("crash-matrix");
    let path = dir.join(format!("{}.txt", flavor.slug()));
    std::fs::create_dir_all(&dir)
        .and_then(|()| std::fs::write(&path, text))
        .with_context(|| format!("{} can not be written", path.display()))?;
    Ok(path)
}
