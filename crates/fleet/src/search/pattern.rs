//! The patterns of `like` and `ilike`, matched as PostgreSQL does under the collation "C".

use std::str::Chars;

/// Whether a pattern is case-sensitive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    /// Case-sensitive: `like`.
    Sensitive,
    /// Case-insensitive for ASCII letters: `ilike`.
    Insensitive,
}

/// A pattern: `%` is any text, `_` one character, and `\` escapes the next character.
#[derive(Debug)]
pub(super) struct Pattern {
    pieces: Vec<Piece>,
    case: Case,
}

#[derive(Debug)]
enum Piece {
    AnyText,
    AnyOne,
    One(char),
}

impl Pattern {
    /// Parses a pattern; `None` if it ends with a single `\`.
    pub(super) fn parse(text: &str, case: Case) -> Option<Self> {
        let mut pieces = Vec::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            pieces.push(match c {
                '%' => Piece::AnyText,
                '_' => Piece::AnyOne,
                '\\' => Piece::One(fold(rest.next()?, case)),
                c => Piece::One(fold(c, case)),
            });
        }
        Some(Self { pieces, case })
    }

    /// Whether the whole text matches. Only the last `%` needs backtracking: it can match everything that an earlier one could.
    pub(super) fn matches(&self, text: &str) -> bool {
        let mut pieces = self.pieces.as_slice();
        let mut rest = text.chars();
        let mut retry: Option<(&[Piece], Chars<'_>)> = None;
        loop {
            let mut ahead = rest.clone();
            match (pieces.split_first(), ahead.next()) {
                (None, None) => return true,
                (Some((Piece::AnyText, after)), _) => {
                    retry = Some((after, rest.clone()));
                    pieces = after;
                    continue;
                }
                (Some((piece, after)), Some(c)) if self.fits(piece, c) => {
                    pieces = after;
                    rest = ahead;
                    continue;
                }
                _ => {}
            }
            let Some((after, from)) = &mut retry else { return false };
            if from.next().is_none() {
                return false;
            }
            pieces = after;
            rest = from.clone();
        }
    }

    fn fits(&self, piece: &Piece, c: char) -> bool {
        match piece {
            Piece::AnyText | Piece::AnyOne => true,
            Piece::One(wanted) => *wanted == fold(c, self.case),
        }
    }
}

fn fold(c: char, case: Case) -> char {
    match case {
        Case::Sensitive => c,
        Case::Insensitive => c.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("prod", "prod", true)]
    #[case("prod", "Prod", false)]
    #[case("prod-1", "prod%", true)]
    #[case("a-prod-1", "prod%", false)]
    #[case("a-prod-1", "%prod%", true)]
    #[case("", "%", true)]
    #[case("", "", true)]
    #[case("", "_", false)]
    #[case("é", "_", true)]
    #[case("ab", "_", false)]
    #[case("aXbXc", "a%X%c", true)]
    #[case("aab", "%ab", true)]
    #[case("abab", "%ab", true)]
    #[case("abac", "%ab", false)]
    #[case("100%", r"100\%", true)]
    #[case("1000", r"100\%", false)]
    #[case("a_b", r"a\_b", true)]
    #[case("axb", r"a\_b", false)]
    #[case(r"a\b", r"a\\b", true)]
    #[case("ab", r"a\b", true)]
    fn like_is_case_sensitive(#[case] text: &str, #[case] pattern: &str, #[case] expected: bool) {
        assert_eq!(Pattern::parse(pattern, Case::Sensitive).unwrap().matches(text), expected);
    }

    #[rstest]
    #[case("PROD-1", "prod%", true)]
    #[case("prod-1", "PROD%", true)]
    #[case("É", "é", false)]
    fn ilike_ignores_the_case_of_ascii_letters(
        #[case] text: &str,
        #[case] pattern: &str,
        #[case] expected: bool,
    ) {
        assert_eq!(Pattern::parse(pattern, Case::Insensitive).unwrap().matches(text), expected);
    }

    #[test]
    fn pattern_with_a_single_backslash_at_the_end_is_invalid() {
        assert!(Pattern::parse(r"a\", Case::Sensitive).is_none());
        assert!(Pattern::parse(r"a\\", Case::Sensitive).is_some());
    }
}
