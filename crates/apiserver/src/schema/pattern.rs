//! Patterns: regular expressions as Go reads them, run by Rust's engine. Both are linear in the length of the text; what
//! one costs in memory is bounded here.

use std::sync::{Arc, OnceLock};

use regex::{Regex, RegexBuilder};

/// What a compiled pattern may cost in memory.
const SIZE: usize = 1 << 20;
/// How often Go lets something repeat.
const REPETITIONS: u32 = 1000;

/// A regular expression, compiled when it is first needed: most definitions have more patterns than are ever used.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) text: Arc<str>,
    /// Nothing, if it cannot be compiled, which was made sure of when its definition was stored.
    regex: Arc<OnceLock<Option<Regex>>>,
}

impl Pattern {
    /// Reads a pattern; the error says what is wrong with it.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        compile(text)?;
        Ok(Self::checked(text))
    }

    /// A pattern that was read before.
    pub(crate) fn checked(text: &str) -> Self {
        Self { text: text.into(), regex: Arc::default() }
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        let regex = self.regex.get_or_init(|| compile(&self.text).ok());
        regex.as_ref().is_some_and(|regex| regex.is_match(text))
    }
}

fn compile(text: &str) -> Result<Regex, String> {
    let translated = translate(text)?;
    RegexBuilder::new(&translated).size_limit(SIZE).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(limit) => {
            format!("it is too large: compiled it would take more than {limit} bytes")
        }
        error => {
            let words = error.to_string();
            words.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
        }
    })
}

/// From Go's syntax to Rust's: classes such as `\d` mean ASCII, a brace that repeats nothing is itself, and brackets
/// have no operators inside.
fn translate(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_class = false;
    // After what repeats, only a question mark may follow that means as little as possible.
    let mut repeats: Option<Repeat> = None;
    while let Some(c) = rest.chars().next() {
        let was_repeated = repeats;
        repeats = None;
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        let mut taken = c.len_utf8();
        match c {
            '\\' => taken = escape(rest, in_class, &mut out)?,
            '[' if in_class && after.starts_with(':') => {
                let end = after.find(":]").map_or(0, |end| end + 2);
                taken += end;
                out.push_str(rest.get(..taken).unwrap_or_default());
            }
            '[' if in_class => out.push_str("\\["),
            '[' => {
                in_class = true;
                out.push('[');
                // A bracket that closes right after it opens is itself.
                let negated = after.starts_with('^');
                if negated {
                    out.push('^');
                    taken += 1;
                }
                if rest.get(taken..).is_some_and(|rest| rest.starts_with(']')) {
                    out.push_str("\\]");
                    taken += 1;
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => out.extend(['\\', c]),
            '-' if in_class && after.starts_with('-') => out.push_str("\\-"),
            '{' if !in_class => match repetition(after)? {
                Some(length) => {
                    nested(was_repeated, rest)?;
                    repeats = Some(Repeat::Greedy);
                    taken += length;
                    out.push_str(rest.get(..taken).unwrap_or_default());
                }
                None => out.push_str("\\{"),
            },
            '*' | '+' | '?' if !in_class => {
                // The lazy mark itself may not be repeated either.
                if c != '?' || was_repeated != Some(Repeat::Greedy) {
                    nested(was_repeated, rest)?;
                    repeats = Some(Repeat::Greedy);
                } else {
                    repeats = Some(Repeat::Lazy);
                }
                out.push(c);
            }
            c => out.push(c),
        }
        rest = rest.get(taken..).unwrap_or_default();
    }
    Ok(out)
}

/// How something before this place repeats.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    Greedy,
    Lazy,
}

fn nested(was_repeated: Option<Repeat>, rest: &str) -> Result<(), String> {
    match was_repeated {
        Some(_) => Err(format!("invalid nested repetition operator before `{rest}`")),
        None => Ok(()),
    }
}

/// Translates what begins with a backslash, and tells how long it is.
fn escape(rest: &str, in_class: bool, out: &mut String) -> Result<usize, String> {
    let Some(c) = rest.chars().nth(1) else { return Err("trailing backslash at end of expression".into()) };
    let mut taken = 1 + c.len_utf8();
    let after = rest.get(taken..).unwrap_or_default();
    let copy = |out: &mut String, length: usize| out.push_str(rest.get(..length).unwrap_or_default());
    match c {
        'd' | 'D' | 'w' | 'W' | 's' | 'S' => out.push_str(ascii_class(c)),
        'b' | 'B' | 'A' | 'z' | 'Q' if in_class => return Err(format!("invalid escape sequence: `\\{c}`")),
        'b' => out.push_str(r"(?-u:\b)"),
        // The characters themselves, up to the end of the quote.
        'Q' => {
            let quoted = after.split("\\E").next().unwrap_or_default();
            out.push_str(&regex::escape(quoted));
            taken += quoted.len() + if quoted.len() < after.len() { 2 } else { 0 };
        }
        'p' | 'P' | 'x' if after.starts_with('{') => {
            taken += after.find('}').map_or(0, |end| end + 1);
            copy(out, taken);
        }
        'p' | 'P' | 'x' | 'B' | 'A' | 'z' | 'a' | 'f' | 'n' | 'r' | 't' | 'v' => copy(out, taken),
        // Up to three octal digits; a single one could be taken for a reference.
        '0'..='7' => {
            let more = after.bytes().take(2).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
            if c != '0' && more == 0 {
                return Err(format!("invalid escape sequence: `\\{c}`"));
            }
            taken += more;
            let code = u32::from_str_radix(rest.get(1..taken).unwrap_or_default(), 8).unwrap_or_default();
            out.push_str(&format!("\\x{{{code:X}}}"));
        }
        c if c.is_ascii_alphanumeric() || !c.is_ascii() => {
            return Err(format!("invalid escape sequence: `\\{c}`"));
        }
        // Rust has a meaning for these that Go does not have.
        '<' | '>' => out.push(c),
        _ => copy(out, taken),
    }
    Ok(taken)
}

fn ascii_class(c: char) -> &'static str {
    match c {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        's' => r"[\t\n\f\r ]",
        _ => r"[^\t\n\f\r ]",
    }
}

/// The length of what follows the brace of a repetition, if it is one.
fn repetition(after: &str) -> Result<Option<usize>, String> {
    let Some((counts, _)) = after.split_once('}') else { return Ok(None) };
    let (least, most) = counts.split_once(',').unwrap_or((counts, ""));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(least) || !(most.is_empty() || is_number(most)) {
        return Ok(None);
    }
    let too_often =
        |count: &str| count.parse::<u32>().is_ok_and(|count| count > REPETITIONS) || count.len() > 9;
    if too_often(least) || too_often(most) {
        return Err(format!("invalid repeat count: `{{{counts}}}`"));
    }
    Ok(Some(counts.len() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn patterns_mean_what_they_mean_to_go() {
        for (pattern, fits, fails) in [
            (r"^\d+$", "12", "١٢"),
            (r"^\w+$", "a_1", "é"),
            (r"^a{,2}$", "a{,2}", "aa"),
            (r"^[]a]+$", "a]", "b"),
            (r"^[^]a]+$", "b", "]"),
            (r"^[a&&b]+$", "a&b", "c"),
            (r"^[[:alpha:]]+$", "ab", "1"),
            (r"^[a[]+$", "a[", "b"),
            (r"^[\w.-]+$", "a.b-c", "a b"),
            (r"\bx\b", "a x b", "axb"),
            (r"^\p{L}+$", "é", "1"),
            (r"^a\/b$", "a/b", "ab"),
        ] {
            let read = Pattern::read(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert!(read.matches(fits), "{pattern} {fits}");
            assert!(!read.matches(fails), "{pattern} {fails}");
        }
    }

    #[test]
    fn patterns_that_go_does_not_know_are_refused() {
        for pattern in ["(", "[a", "a**", "(?=a)", r"(a)\1", "a{1001}", "*"] {
            assert!(Pattern::read(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn a_pattern_that_would_take_too_much_memory_is_refused_at_once() {
        let started = Instant::now();
        let error = Pattern::read("(a{1000}){1000}").unwrap_err();
        assert!(error.contains("too large"), "{error}");
        assert!(started.elapsed().as_secs() < 5);
    }

    #[test]
    fn no_pattern_takes_longer_than_its_text() {
        let pattern = Pattern::read("^(a+)+$").unwrap();
        let started = Instant::now();
        assert!(!pattern.matches(&format!("{}b", "a".repeat(100_000))));
        assert!(started.elapsed().as_secs() < 5);
    }
}
