//! Names of topics and subscriptions, which are valid on every broker.

use crate::BrokerError;

const MAX_BYTES: usize = 200;

/// Checks the name of a topic or subscription.
pub(crate) fn validate(name: &str) -> Result<(), BrokerError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if (1..=MAX_BYTES).contains(&name.len()) && name.bytes().all(is_allowed) {
        Ok(())
    } else {
        Err(BrokerError::Name(name.chars().take(MAX_BYTES).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_1_to_200_letters_digits_dots_underscores_and_dashes() {
        let (longest, too_long) = ("a".repeat(200), "a".repeat(201));
        for valid in ["a", "ns-clusters", "A.b_c-9", longest.as_str()] {
            assert!(validate(valid).is_ok(), "{valid}");
        }
        for invalid in ["", "a b", "a/b", "a*", ">", "a=b", "é", "a\n", too_long.as_str()] {
            assert!(matches!(validate(invalid), Err(BrokerError::Name(_))), "{invalid}");
        }
    }
}
