//! Patterns in the syntax of Go: which are patterns at all, and what they match.

use bellwether_testkit::{Call, eventually};
use serde_json::{Map, Value, json};

use crate::compare::{Both, Pair, Tally};
use crate::kinds::{DEFINITIONS, definition};

const GROUP: &str = "patterns.example.com";

const PATTERNS: [&str; 68] = [
    r"^\d+$",
    r"^\D+$",
    r"^\w+$",
    r"^\W+$",
    r"^\s*$",
    r"^\S+$",
    r"\bfoo\b",
    r"\Bo",
    r"^a{2}$",
    r"^a{2,}$",
    r"^a{2,3}$",
    r"^a{,3}$",
    r"^a{x}$",
    r"a{",
    r"^[a-z&&b]+$",
    r"^[]a]+$",
    r"^[^]a]+$",
    r"^[[:alpha:]]+$",
    r"^[[:^digit:]]+$",
    r"^[a[]+$",
    r"^[\d.]+$",
    r"^[\w-]+$",
    r"^[^\s]+$",
    r"^\p{L}+$",
    r"^\pL+$",
    r"^\P{L}+$",
    r"^\p{Greek}+$",
    r"^[\p{Lu}x]+$",
    r"^\x41$",
    r"^\x{1F600}$",
    r"^\101$",
    r"^.$",
    r"(?s)^.$",
    r"(?i)^abc$",
    r"(?m)^b$",
    r"(?U)^a+",
    r"^(?:a|b)+$",
    r"^(?P<n>a)$",
    r"^(?<n>a)$",
    r"^a??b$",
    r"a**",
    r"a+?+",
    r"a*?",
    r"x{1001}",
    r"x{1000}",
    r"(?=a)",
    r"(?!a)",
    r"(?<=a)b",
    r"(a)\1",
    r"a\Z",
    r"^a\z",
    r"\Aa",
    r"\Qa.b\E",
    r"\a\f\n\r\t\v",
    r"\u0041",
    r"\<a\>",
    r"^a\/b$",
    r"^a\_b\-c$",
    r"(",
    r")",
    r"[",
    r"]",
    r"*",
    r"a|*",
    r"a||b",
    r"^é+$",
    r"[z-a]",
    r"^#a b$",
];
const TEXTS: [&str; 36] = [
    "", "a", "aa", "aaa", "b", "ab", "abc", "ABC", "12", "١٢", "a_1", "é", "É", "α", "foo bar", "food", " ",
    "\t", "\n", "a\nb", "a{,3}", "a{x}", "a{", "a]", "[a", "a&b", "1.5", "a-b", "A", "😀", "x", "a.b", "a/b",
    "a_b-c", "#a b", "\u{a0}",
];

pub(crate) async fn compare(both: &Both, tally: &mut Tally) {
    let with = |fields: Map<String, Value>| {
        let schema =
            json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}});
        definition(GROUP, "Matched", schema)
    };
    let field = |at: usize, pattern: &str| (format!("p{at}"), json!({"type": "string", "pattern": pattern}));
    let pair = |(at, pattern): (usize, &&str)| Pair {
        sort: "patterns",
        about: format!("{pattern:?}"),
        call: Call::post(format!("{DEFINITIONS}?dryRun=All"), &with(Map::from_iter([field(at, pattern)]))),
    };
    let accepted = both.compare(PATTERNS.iter().enumerate().map(pair).collect(), tally).await;
    let good: Vec<usize> = (0..PATTERNS.len()).filter(|at| accepted[*at]).collect();
    let definition = with(good.iter().map(|at| field(*at, PATTERNS[*at])).collect());
    let path = format!("/apis/{GROUP}/v1/namespaces/default/matched");
    for cluster in [&both.kubernetes, &both.ours] {
        cluster.post(DEFINITIONS, &definition).await.expect(201);
        eventually("objects", || async { (cluster.get(&path).await.status == 200).then_some(()) }).await;
    }
    // One object tries a text against all patterns: each that does not match is a cause.
    let matched = |text: &&str| {
        let spec: Map<String, Value> = good.iter().map(|at| (format!("p{at}"), (*text).into())).collect();
        let object = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Matched", "metadata": {"name": "x"}, "spec": spec});
        Pair {
            sort: "matches",
            about: format!("{text:?}"),
            call: Call::post(format!("{path}?dryRun=All"), &object),
        }
    };
    both.compare(TEXTS.iter().map(matched).collect(), tally).await;
}
