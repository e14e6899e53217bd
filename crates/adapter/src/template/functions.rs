//! The functions of templates. Functions on text take the text first, as Go's package `strings` does.

use std::cmp::Ordering;
use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::{Number, Value as Json};

use super::time_layout::format_time;
use super::value::Value;

/// The most digits and the widest field that `printf` writes.
const MAX_WIDTH: usize = 256;

macro_rules! functions {
    ($($variant:ident $name:literal $min:literal $max:literal),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Function { $($variant),* }

        impl Function {
            pub(super) fn named(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }

            pub(super) fn names() -> Vec<&'static str> {
                vec![$($name),*]
            }

            pub(super) fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            fn arguments(self) -> (usize, usize) {
                match self { $(Self::$variant => ($min, $max)),* }
            }
        }
    };
}

const ANY: usize = usize::MAX;

functions! {
    Now "now" 0 0, Date "date" 2 2, DateFormat "dateFormat" 2 2,
    Lower "lower" 1 1, Upper "upper" 1 1, Title "title" 1 1, Trim "trim" 1 1,
    TrimPrefix "trimPrefix" 2 2, TrimSuffix "trimSuffix" 2 2, Replace "replace" 3 3,
    Contains "contains" 2 2, HasPrefix "hasPrefix" 2 2, HasSuffix "hasSuffix" 2 2,
    Quote "quote" 1 1, Default "default" 2 2,
    Int "int" 1 1, Int64 "int64" 1 1, Float "float" 1 1, Float64 "float64" 1 1, String "string" 1 1,
    Eq "eq" 2 32, Ne "ne" 2 2, Lt "lt" 2 2, Le "le" 2 2, Gt "gt" 2 2, Ge "ge" 2 2,
    And "and" 1 32, Or "or" 1 32, Not "not" 1 1,
    Len "len" 1 1, Index "index" 1 32, Printf "printf" 1 32, Print "print" 0 32,
}

/// Checks how many arguments a function gets.
pub(super) fn check_arguments(function: Function, given: usize) -> Result<(), String> {
    let (min, max) = function.arguments();
    if (min..=max).contains(&given) {
        return Ok(());
    }
    let name = function.name();
    let wanted = match (min, max) {
        (min, max) if min == max => min.to_string(),
        (min, ANY) => format!("{min} or more"),
        (min, max) => format!("{min} to {max}"),
    };
    Err(format!("{name} takes {wanted} arguments, and gets {given}"))
}

/// Calls a function with as many arguments as were checked.
pub(super) fn call(function: Function, arguments: &[Value], now: Timestamp) -> Result<Value, String> {
    let text = |index: usize| text_argument(function, arguments, index);
    let string = |text: String| Ok(Value::Json(Json::String(text)));
    let boolean = |value: bool| Ok(Value::Json(Json::Bool(value)));
    match function {
        Function::Now => Ok(Value::Time(now)),
        Function::Date | Function::DateFormat => string(format_time(time_argument(arguments)?, &text(0)?)),
        Function::Lower => string(text(0)?.to_lowercase()),
        Function::Upper => string(text(0)?.to_uppercase()),
        Function::Title => string(title(&text(0)?)),
        Function::Trim => string(text(0)?.trim().to_owned()),
        Function::TrimPrefix => {
            let value = text(0)?;
            string(value.strip_prefix(text(1)?.as_str()).unwrap_or(&value).to_owned())
        }
        Function::TrimSuffix => {
            let value = text(0)?;
            string(value.strip_suffix(text(1)?.as_str()).unwrap_or(&value).to_owned())
        }
        Function::Replace => string(text(0)?.replace(&text(1)?, &text(2)?)),
        Function::Contains => boolean(text(0)?.contains(&text(1)?)),
        Function::HasPrefix => boolean(text(0)?.starts_with(&text(1)?)),
        Function::HasSuffix => boolean(text(0)?.ends_with(&text(1)?)),
        Function::Quote => string(Json::String(text(0)?).to_string()),
        Function::Default => Ok(default_value(arguments)),
        Function::Int | Function::Int64 => Ok(Value::Json(to_integer(arguments.first()).into())),
        Function::Float | Function::Float64 => {
            Ok(Value::Json(Number::from_f64(to_float(arguments.first())).map_or(Json::Null, Json::Number)))
        }
        Function::String => string(arguments.first().and_then(Value::text).unwrap_or_default()),
        Function::Print => string(arguments.iter().filter_map(Value::text).collect()),
        Function::Printf => string(printf(&text(0)?, arguments.get(1..).unwrap_or_default())?),
        Function::Eq => {
            let (first, others) = arguments.split_first().ok_or("eq takes arguments")?;
            boolean(others.iter().any(|other| are_equal(first, other)))
        }
        Function::Ne => boolean(!equal_pair(arguments)),
        Function::Lt => boolean(order(function, arguments)? == Ordering::Less),
        Function::Le => boolean(order(function, arguments)? != Ordering::Greater),
        Function::Gt => boolean(order(function, arguments)? == Ordering::Greater),
        Function::Ge => boolean(order(function, arguments)? != Ordering::Less),
        Function::Not => boolean(!arguments.first().is_some_and(Value::is_true)),
        // Evaluated by the renderer, which does not evaluate all arguments.
        Function::And | Function::Or => Ok(arguments.last().cloned().unwrap_or(Value::Json(Json::Null))),
        Function::Len => Ok(Value::Json(length(arguments.first())?.into())),
        Function::Index => index(arguments),
    }
}

fn text_argument(function: Function, arguments: &[Value], index: usize) -> Result<String, String> {
    let value = arguments.get(index).ok_or_else(|| format!("{} has too few arguments", function.name()))?;
    match value {
        Value::Json(Json::Array(_) | Json::Object(_) | Json::Null) => Err(format!(
            "argument {} of {} must be a string, and it is {}",
            index + 1,
            function.name(),
            value.type_name()
        )),
        value => Ok(value.text().unwrap_or_default()),
    }
}

fn time_argument(arguments: &[Value]) -> Result<Timestamp, String> {
    let invalid = |value: &Value| {
        format!("date takes a time, such as now or a string in RFC 3339, and gets {}", value.type_name())
    };
    match arguments.get(1) {
        Some(Value::Time(time)) => Ok(*time),
        Some(value @ Value::Json(Json::String(text))) => {
            text.parse().map_err(|_| format!("{}: {text:?}", invalid(value)))
        }
        Some(value @ Value::Json(Json::Number(number))) => {
            let seconds = number.as_i64().ok_or_else(|| invalid(value))?;
            Timestamp::from_second(seconds).map_err(|_| invalid(value))
        }
        Some(value) => Err(invalid(value)),
        None => Err("date takes a layout and a time".to_owned()),
    }
}

fn title(text: &str) -> String {
    let mut begins_word = true;
    let mut titled = String::with_capacity(text.len());
    for character in text.chars() {
        if begins_word {
            titled.extend(character.to_uppercase());
        } else {
            titled.extend(character.to_lowercase());
        }
        begins_word = !(character.is_alphanumeric() || matches!(character, '\'' | '_'));
    }
    titled
}

/// The second argument, unless it is null or the empty string.
fn default_value(arguments: &[Value]) -> Value {
    let value = arguments.get(1).cloned().unwrap_or(Value::Json(Json::Null));
    let is_absent = match &value {
        Value::Json(Json::Null) => true,
        Value::Json(Json::String(text)) => text.is_empty(),
        _ => false,
    };
    if is_absent { arguments.first().cloned().unwrap_or(value) } else { value }
}

/// As upstream, what is not a number is 0.
fn to_integer(value: Option<&Value>) -> i64 {
    match value {
        Some(Value::Json(Json::Number(number))) => {
            // A cast of a float saturates.
            number.as_i64().unwrap_or_else(|| number.as_f64().unwrap_or_default() as i64)
        }
        Some(Value::Json(Json::String(text))) => text.parse().unwrap_or_default(),
        _ => 0,
    }
}

fn to_float(value: Option<&Value>) -> f64 {
    match value {
        Some(Value::Json(Json::Number(number))) => number.as_f64().unwrap_or_default(),
        Some(Value::Json(Json::String(text))) => text.parse().unwrap_or_default(),
        _ => 0.0,
    }
}

fn equal_pair(arguments: &[Value]) -> bool {
    matches!(arguments, [left, right] if are_equal(left, right))
}

fn are_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Json(Json::Number(left)), Value::Json(Json::Number(right))) => {
            left.as_f64() == right.as_f64()
        }
        (left, right) => left == right,
    }
}

fn order(function: Function, arguments: &[Value]) -> Result<Ordering, String> {
    let ordering = match arguments {
        [Value::Json(Json::Number(left)), Value::Json(Json::Number(right))] => {
            left.as_f64().partial_cmp(&right.as_f64())
        }
        [Value::Json(Json::String(left)), Value::Json(Json::String(right))] => Some(left.cmp(right)),
        [Value::Time(left), Value::Time(right)] => Some(left.cmp(right)),
        _ => None,
    };
    ordering.ok_or_else(|| {
        let types: Vec<&str> = arguments.iter().map(Value::type_name).collect();
        format!("{} compares two numbers or two strings, and gets {}", function.name(), types.join(" and "))
    })
}

fn length(value: Option<&Value>) -> Result<usize, String> {
    match value {
        Some(Value::Json(Json::String(text))) => Ok(text.len()),
        Some(Value::Json(Json::Array(items))) => Ok(items.len()),
        Some(Value::Json(Json::Object(entries))) => Ok(entries.len()),
        other => Err(format!(
            "len takes a string, list or map, and gets {}",
            other.map_or("nothing", Value::type_name)
        )),
    }
}

fn index(arguments: &[Value]) -> Result<Value, String> {
    let mut found = arguments.first().cloned().unwrap_or(Value::Json(Json::Null));
    for key in arguments.iter().skip(1) {
        let key_text = key.text().unwrap_or_default();
        let next = match &found {
            Value::Json(Json::Array(items)) => {
                key_text.parse::<usize>().ok().and_then(|index| items.get(index))
            }
            Value::Json(Json::Object(entries)) => entries.get(&key_text),
            other => return Err(format!("index takes a list or a map, and gets {}", other.type_name())),
        };
        found = Value::Json(next.cloned().ok_or_else(|| format!("index {key_text:?} does not exist"))?);
    }
    Ok(found)
}

/// `%s %v %d %q %t %f %x %%`, with `0`, width and precision.
fn printf(format: &str, arguments: &[Value]) -> Result<String, String> {
    let mut output = String::new();
    let mut next = arguments.iter();
    let mut characters = format.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '%' {
            output.push(character);
            continue;
        }
        let mut specification = String::new();
        while let Some(flag) = characters.next_if(|c| c.is_ascii_digit() || matches!(c, '.' | '-' | '+')) {
            specification.push(flag);
        }
        let verb = characters.next().ok_or("printf: the format ends with %")?;
        if verb == '%' {
            output.push('%');
            continue;
        }
        let value = next.next().ok_or_else(|| format!("printf: %{verb} has no argument"))?;
        write_verb(&mut output, verb, &specification, value)?;
    }
    match next.next() {
        Some(_) => Err("printf: there are more arguments than verbs".to_owned()),
        None => Ok(output),
    }
}

fn write_verb(output: &mut String, verb: char, specification: &str, value: &Value) -> Result<(), String> {
    let (width, precision) = specification.split_once('.').unwrap_or((specification, ""));
    let left = width.starts_with('-');
    let zero = width.starts_with('0');
    let width: usize = width.trim_start_matches(['-', '+']).parse().unwrap_or(0);
    let precision: Option<usize> = precision.parse().ok();
    if width > MAX_WIDTH || precision.unwrap_or(0) > MAX_WIDTH {
        return Err(format!("printf: a width must be at most {MAX_WIDTH}"));
    }
    let text = match verb {
        's' | 'v' => value.text().unwrap_or_default(),
        'q' => Json::String(value.text().unwrap_or_default()).to_string(),
        'd' => to_integer(Some(value)).to_string(),
        'x' => format!("{:x}", to_integer(Some(value))),
        't' => value.is_true().to_string(),
        'f' => format!("{:.*}", precision.unwrap_or(6), to_float(Some(value))),
        other => return Err(format!("printf: %{other} is not supported; use %s, %v, %d, %q, %t, %f or %x")),
    };
    let written = match (left, zero) {
        (true, _) => write!(output, "{text:<width$}"),
        (false, true) => write!(output, "{text:0>width$}"),
        (false, false) => write!(output, "{text:>width$}"),
    };
    written.map_err(|error| error.to_string())
}
