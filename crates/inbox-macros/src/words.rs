//! The words that `#[inbox(…)]` knows, and what a wrong one may have been meant to be.

/// Every attribute, with an example of it.
const ATTRIBUTES: [(&str, &str); 15] = [
    ("name", r#"name = "payments.reserve""#),
    ("topic", r#"topic = "orders.placed""#),
    ("topics", r#"topics("orders.placed", "orders.changed")"#),
    ("topic_pattern", r#"topic_pattern = "orders\\..*""#),
    ("payload", "payload = OrderPlaced"),
    ("id", r#"id = header("event-id")"#),
    ("key", "key = payload(order_id)"),
    ("codec", "codec = Json"),
    ("filter", "filter = is_wanted"),
    ("max_batch", "max_batch = 100"),
    ("time_limit", r#"time_limit = "30s""#),
    ("start", "start = committed"),
    ("retry", r#"retry(max_attempts = 10, max_elapsed = "24h")"#),
    ("on_dead", "on_dead = block"),
    ("crate", "crate = inbox"),
];

/// The attribute of this name, as a `'static` string.
pub(crate) fn attribute(word: &str) -> Option<&'static str> {
    ATTRIBUTES.iter().map(|(name, _)| *name).find(|name| *name == word)
}

/// How this attribute is written.
pub(crate) fn example(attribute: &str) -> &'static str {
    ATTRIBUTES.iter().find(|(name, _)| *name == attribute).map_or("", |(_, example)| example)
}

/// All attributes, for an error's text.
pub(crate) fn attributes() -> String {
    list(ATTRIBUTES.iter().map(|(name, _)| *name))
}

/// The attribute that `word` nearly is.
pub(crate) fn attribute_near(word: &str) -> Option<&'static str> {
    near(word, ATTRIBUTES.iter().map(|(name, _)| *name))
}

/// The known word that `word` differs from by no more than a slip: one letter in three.
pub(crate) fn near<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|known| (strsim::osa_distance(word, known), known))
        .filter(|(distance, known)| *distance <= (known.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// `a`, `b` and `c`.
pub(crate) fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<_> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_word() {
        for (slip, meant) in [
            ("nmae", "name"),
            ("topik", "topic"),
            ("payloads", "payload"),
            ("ids", "id"),
            ("keys", "key"),
            ("maxbatch", "max_batch"),
            ("timelimit", "time_limit"),
            ("rerty", "retry"),
            ("ondead", "on_dead"),
        ] {
            assert_eq!(attribute_near(slip), Some(meant), "{slip}");
        }
    }

    #[test]
    fn another_word_finds_none() {
        for other in ["backoff", "window", "dedup", "version", "on_failure", "group", "x"] {
            assert_eq!(attribute_near(other), None, "{other}");
        }
    }
}
