//! Parses the parameter `order` of lists.

use std::cmp::Ordering;

use super::{SearchError, quoted};
use crate::resource::AdapterStatus;
use crate::store::{Column, Direction, Order};

/// Parses an order: `field`, `field asc` or `field desc`, separated by commas or as several parts. A repeated field has no effect, as in
/// SQL.
///
/// ```
/// use bellwether_fleet::search::parse_order;
///
/// assert_eq!(parse_order(&["name, created_time desc"])?.len(), 2);
/// let error = parse_order(&["name; DROP TABLE resources"]).unwrap_err();
/// assert!(error.to_string().starts_with("invalid order format: "));
/// # Ok::<(), bellwether_fleet::search::SearchError>(())
/// ```
pub fn parse_order(parts: &[&str]) -> Result<Vec<Order>, SearchError> {
    let mut orders: Vec<Order> = Vec::new();
    for key in parts.iter().flat_map(|part| part.split(',')) {
        let order = parse_key(key.trim())?;
        if orders.iter().all(|earlier| earlier.column != order.column) {
            orders.push(order);
        }
    }
    Ok(orders)
}

fn parse_key(key: &str) -> Result<Order, SearchError> {
    let (name, direction) = split_key(key)?;
    let unknown =
        || SearchError::Order(format!("unknown field {}; there are {}", quoted(name), Column::names()));
    Ok(Order { column: Column::named(name).ok_or_else(unknown)?, direction })
}

/// One key of the order of adapter statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusOrder {
    field: &'static str,
    direction: Direction,
}

impl StatusOrder {
    /// The fields by which adapter statuses can be ordered.
    pub const FIELDS: [&str; 5] =
        ["adapter", "observed_generation", "created_time", "last_updated_time", "last_report_time"];

    /// Parses a key: `field`, `field asc` or `field desc`.
    pub fn parse(key: &str) -> Result<Self, SearchError> {
        let (name, direction) = split_key(key)?;
        let found = Self::FIELDS.into_iter().find(|field| *field == name);
        let unknown = || {
            SearchError::Order(format!(
                "unknown field {}; there are {}",
                quoted(name),
                Self::FIELDS.join(", ")
            ))
        };
        Ok(Self { field: found.ok_or_else(unknown)?, direction })
    }

    /// The order of two statuses by this key.
    pub fn compare(&self, one: &AdapterStatus, other: &AdapterStatus) -> Ordering {
        let ascending = match self.field {
            "observed_generation" => one.observed_generation.cmp(&other.observed_generation),
            "created_time" => one.created_time.cmp(&other.created_time),
            "last_updated_time" => one.last_updated_time.cmp(&other.last_updated_time),
            "last_report_time" => one.last_report_time.cmp(&other.last_report_time),
            _ => one.adapter.cmp(&other.adapter),
        };
        match self.direction {
            Direction::Ascending => ascending,
            Direction::Descending => ascending.reverse(),
        }
    }
}

/// The name and the direction of a key.
fn split_key(key: &str) -> Result<(&str, Direction), SearchError> {
    let malformed = || {
        SearchError::Order(format!("expected 'field', 'field asc' or 'field desc', found {}", quoted(key)))
    };
    let mut parts = key.split_whitespace();
    let name = parts.next().filter(|name| is_name(name)).ok_or_else(malformed)?;
    let direction = match (parts.next(), parts.next()) {
        (None | Some("asc"), None) => Direction::Ascending,
        (Some("desc"), None) => Direction::Descending,
        _ => return Err(malformed()),
    };
    Ok((name, direction))
}

fn is_name(text: &str) -> bool {
    let is_letter = |c: u8| c.is_ascii_lowercase() || c == b'_';
    text.bytes().next().is_some_and(is_letter) && text.bytes().all(|c| is_letter(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn written(orders: &[Order]) -> String {
        let key = |order: &Order| match order.direction {
            Direction::Ascending => order.column.name().to_owned(),
            Direction::Descending => format!("{} desc", order.column.name()),
        };
        orders.iter().map(key).collect::<Vec<_>>().join(",")
    }

    #[rstest]
    #[case::a_field(&["name"], "name")]
    #[case::a_direction(&["name asc"], "name")]
    #[case::the_other(&["created_time  desc"], "created_time desc")]
    #[case::a_list(&["owner_id,name desc , id"], "owner_id,name desc,id")]
    #[case::repeated(&["kind", "name desc"], "kind,name desc")]
    #[case::the_same_again(&["name", "name desc", "id,name"], "name,id")]
    #[case::nothing(&[], "")]
    fn valid_orders_are_parsed(#[case] parts: &[&str], #[case] expected: &str) {
        assert_eq!(written(&parse_order(parts).unwrap()), expected);
    }

    #[rstest]
    #[case::sql("name; DROP TABLE", "name; DROP TABLE")]
    #[case::a_word("name ascending", "name ascending")]
    #[case::upper_case("name DESC", "name DESC")]
    #[case::an_upper_case_field("Name", "Name")]
    #[case::a_digit_in_front("1name", "1name")]
    #[case::a_third_word("name asc asc", "name asc asc")]
    #[case::nothing("", "")]
    #[case::nothing_between_commas("name,,id", "")]
    #[case::a_comma_at_the_end("name,", "")]
    #[case::a_path("spec.a", "spec.a")]
    #[case::brackets("lower(name)", "lower(name)")]
    #[case::quotes("name'--", "name'--")]
    fn invalid_orders_are_rejected(#[case] part: &str, #[case] found: &str) {
        let expected =
            format!("invalid order format: expected 'field', 'field asc' or 'field desc', found '{found}'");
        assert_eq!(parse_order(&[part]).unwrap_err().to_string(), expected);
    }

    #[test]
    fn error_for_an_unknown_field_lists_the_fields() {
        let expected = "invalid order format: unknown field 'spec'; there are id, kind, name, href, generation, \
                        created_time, created_by, updated_time, updated_by, deleted_time, deleted_by, owner_id, owner_kind";
        assert_eq!(parse_order(&["spec"]).unwrap_err().to_string(), expected);
    }
}
