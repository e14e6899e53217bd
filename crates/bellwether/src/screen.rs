//! A part of the terminal that is drawn again and again in place. What stood above it stays, and so does what was drawn
//! last.

use std::io::{self, Write};

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
/// Between these the terminal shows nothing half-done, if it knows them.
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";
const CLEAR_REST_OF_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// The room that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) lines: usize,
    pub(crate) columns: usize,
}

/// Hides the cursor as long as it lives.
pub(crate) struct Screen<W: Write> {
    terminal: W,
    drawn: usize,
}

impl<W: Write> Screen<W> {
    pub(crate) fn on(mut terminal: W) -> io::Result<Self> {
        terminal.write_all(HIDE_CURSOR.as_bytes())?;
        Ok(Self { terminal, drawn: 0 })
    }

    /// Draws over what was drawn before. The lines must fit: one that wraps would be taken for one line.
    pub(crate) fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        let mut frame = String::from(BEGIN);
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
        frame.push_str(END);
        self.drawn = lines.len();
        self.terminal.write_all(frame.as_bytes())?;
        self.terminal.flush()
    }
}

impl<W: Write> Drop for Screen<W> {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = self.terminal.write_all(SHOW_CURSOR.as_bytes());
        let _ = self.terminal.flush();
    }
}

/// The room in the terminal of stdout; the last line is left to the cursor.
pub(crate) fn frame() -> Frame {
    let (lines, columns) = console::Term::stdout().size();
    Frame { lines: usize::from(lines).saturating_sub(1), columns: usize::from(columns) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_draws_in_place_and_gives_the_cursor_back() {
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
