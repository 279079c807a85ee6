//! Which topics a subscription consumes.

use std::collections::BTreeSet;

use regex::Regex;

use crate::identity::Topic;

/// Topics by name, and by patterns.
#[derive(Clone, Debug, Default)]
pub struct Topics {
    names: BTreeSet<Topic>,
    patterns: Vec<Pattern>,
}

#[derive(Clone, Debug)]
struct Pattern {
    text: String,
    /// Or what is wrong with it, which is told when the inbox starts.
    regex: Result<Regex, String>,
}

impl Topics {
    pub(crate) fn add(&mut self, topic: Topic) {
        self.names.insert(topic);
    }

    pub(crate) fn add_pattern(&mut self, text: &str) {
        // The whole name has to match, or `orders` would mean every topic that has it somewhere.
        let regex = Regex::new(&format!("^(?:{text})$")).map_err(|error| error.to_string());
        self.patterns.push(Pattern { text: text.to_owned(), regex });
    }

    pub(crate) fn add_all(&mut self, others: &Self) {
        self.names.extend(others.names.iter().cloned());
        self.patterns.extend(others.patterns.iter().cloned());
    }

    /// Those that are named.
    #[must_use]
    pub fn names(&self) -> &BTreeSet<Topic> {
        &self.names
    }

    /// Whether there are patterns, so that topics may come and go.
    #[must_use]
    pub fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Whether it is one of these. Names that begin with two underscores are Kafka's own: only their
    /// name means them, no pattern.
    #[must_use]
    pub fn contains(&self, topic: &Topic) -> bool {
        let matches = |pattern: &Pattern| pattern.regex.as_ref().is_ok_and(|it| it.is_match(topic.as_str()));
        self.names.contains(topic) || (!topic.as_str().starts_with("__") && self.patterns.iter().any(matches))
    }

    pub(crate) fn problem(&self) -> Option<String> {
        if self.names.is_empty() && self.patterns.is_empty() {
            return Some("it names no topic: add `topic = \"…\"`".into());
        }
        if let Some(topic) = self.names.iter().find(|topic| is_bad(topic.as_str())) {
            return Some(format!(
                "{:?} cannot be a topic's name: 1 to 249 of ASCII letters, digits, '.', '_' and '-'; for several \
                 topics write `topic_pattern = \"…\"`",
                topic.as_str()
            ));
        }
        self.patterns.iter().find_map(|pattern| {
            let problem = pattern.regex.as_ref().err()?;
            Some(format!("the topic pattern {:?} cannot be read: {problem}", pattern.text))
        })
    }
}

fn is_bad(name: &str) -> bool {
    name.is_empty()
        || name.len() > 249
        || name == "."
        || name == ".."
        || !name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(names: &[&str], patterns: &[&str]) -> Topics {
        let mut topics = Topics::default();
        for name in names {
            topics.add(Topic::new(*name));
        }
        for pattern in patterns {
            topics.add_pattern(pattern);
        }
        topics
    }

    #[test]
    fn a_pattern_means_whole_names() {
        let topics = topics(&["exact.name"], &[r"orders\.(eu|us)\..*", "one|two"]);
        for inside in ["exact.name", "orders.eu.placed", "orders.us.", "one", "two"] {
            assert!(topics.contains(&Topic::new(inside)), "{inside}");
        }
        for outside in ["exactly.name", "orders.eu", "my.orders.eu.placed", "orders.asia.placed", "one2", ""]
        {
            assert!(!topics.contains(&Topic::new(outside)), "{outside}");
        }
    }

    #[test]
    fn kafkas_own_topics_match_no_pattern() {
        let offsets = Topic::new("__consumer_offsets");
        assert!(!topics(&[], &[".*"]).contains(&offsets));
        assert!(topics(&["__consumer_offsets"], &[".*"]).contains(&offsets));
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        assert_eq!(topics(&["a"], &["b.*"]).problem(), None);
        let says = |topics: Topics, words: &str| {
            let problem = topics.problem().expect("a problem");
            assert!(problem.contains(words), "{problem}");
        };
        says(topics(&[], &[]), "no topic");
        says(topics(&["a.*"], &[]), "topic_pattern");
        says(topics(&["a"], &["b("]), "\"b(\"");
    }
}
