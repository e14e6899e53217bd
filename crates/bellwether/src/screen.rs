//! Redraws lines in place at the end of a terminal. Text above them stays, and so do the lines that were drawn last.

use std::io::{self, IsTerminal as _, Stdout, Write};

use crate::output::cut;

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
/// Synchronized output: a terminal that supports it shows everything between these at once.
const BEGIN_SYNC: &str = "\x1b[?2026h";
const END_SYNC: &str = "\x1b[?2026l";
const CLEAR_REST_OF_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// The size of the area to draw in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) lines: usize,
    pub(crate) columns: usize,
}

/// An area of the terminal. The cursor is hidden until the screen is dropped.
pub(crate) struct Screen<W: Write> {
    terminal: W,
    drawn: usize,
}

impl Frame {
    /// The frame without some of its lines.
    pub(crate) fn without(self, lines: usize) -> Self {
        Self { lines: self.lines.saturating_sub(lines), ..self }
    }
}

impl<W: Write> Screen<W> {
    pub(crate) fn on(mut terminal: W) -> io::Result<Self> {
        terminal.write_all(HIDE_CURSOR.as_bytes())?;
        Ok(Self { terminal, drawn: 0 })
    }

    /// Replaces the lines that were drawn before. Lines must not be wider than the terminal: a wrapped line would be counted as one.
    pub(crate) fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        let mut frame = String::from(BEGIN_SYNC);
        if self.drawn > 0 {
            frame.push_str(&format!("\x1b[{}A", self.drawn));
        }
        frame.push('\r');
        for line in lines {
            frame.push_str(line);
            frame.push_str(CLEAR_REST_OF_LINE);
            frame.push('\n');
        }
        frame.push_str(CLEAR_BELOW);
        frame.push_str(END_SYNC);
        self.drawn = lines.len();
        self.terminal.write_all(frame.as_bytes())?;
        self.terminal.flush()
    }
}

impl<W: Write> Drop for Screen<W> {
    fn drop(&mut self) {
        // The terminal may be closed.
        let _ = self.terminal.write_all(SHOW_CURSOR.as_bytes());
        let _ = self.terminal.flush();
    }
}

/// Lines that follow changes on a terminal. They are drawn only if they differ from what it shows.
pub(crate) struct LiveView {
    screen: Screen<Stdout>,
    drawn: Vec<String>,
}

impl LiveView {
    /// A view on stdout, if that is a terminal.
    pub(crate) fn on_terminal() -> io::Result<Option<Self>> {
        let stdout = io::stdout();
        if !stdout.is_terminal() {
            return Ok(None);
        }
        Ok(Some(Self { screen: Screen::on(stdout)?, drawn: Vec::new() }))
    }

    /// Shows lines, and below them an error that is being retried.
    pub(crate) fn show(&mut self, lines: Vec<String>, error: Option<&str>) -> io::Result<()> {
        let lines = fit(lines, error, frame());
        if lines != self.drawn {
            self.screen.draw(&lines)?;
            self.drawn = lines;
        }
        Ok(())
    }
}

/// Leaves out and cuts lines so that they fit a frame together with an error.
pub(crate) fn fit(mut lines: Vec<String>, error: Option<&str>, frame: Frame) -> Vec<String> {
    lines.truncate(frame.lines.saturating_sub(usize::from(error.is_some())));
    lines.extend(error.map(|error| format!("{error}; trying again")));
    lines.truncate(frame.lines.max(1));
    lines.iter().map(|line| cut(line, frame.columns)).collect()
}

/// The size of the terminal of stdout, without the last line, which has the cursor.
pub(crate) fn frame() -> Frame {
    let (lines, columns) = console::Term::stdout().size();
    Frame { lines: usize::from(lines).saturating_sub(1), columns: usize::from(columns) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_redrawn_in_place_and_the_cursor_is_shown_again() {
        let mut terminal = Vec::new();
        let mut screen = Screen::on(&mut terminal).unwrap();
        screen.draw(&["one".into(), "two".into()]).unwrap();
        screen.draw(&["three".into()]).unwrap();
        drop(screen);
        let text = String::from_utf8(terminal).unwrap();
        let first = "\x1b[?25l\x1b[?2026h\rone\x1b[K\ntwo\x1b[K\n\x1b[J\x1b[?2026l";
        let second = "\x1b[?2026h\x1b[2A\rthree\x1b[K\n\x1b[J\x1b[?2026l\x1b[?25h";
        assert_eq!(text, format!("{first}{second}"));
    }
}
