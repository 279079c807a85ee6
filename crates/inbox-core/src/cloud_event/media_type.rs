//! Media types: which mode a record is in, and whether data is JSON.

use crate::record::Headers;

/// What the content type says of a record's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// It is the data.
    Binary,
    /// It is an envelope in the JSON format.
    Json,
    /// It is an array of envelopes.
    Batch,
    /// It is an envelope in another format.
    Other,
}

impl Mode {
    pub(super) fn of(content_type: &str) -> Self {
        let Some(format) = strip_prefix(essence(content_type), "application/cloudevents") else {
            return Self::Binary;
        };
        if format.eq_ignore_ascii_case("+json") {
            Self::Json
        } else if strip_prefix(format, "-batch").is_some() {
            Self::Batch
        } else {
            Self::Other
        }
    }
}

/// The value of the header `content-type`, in whichever case its name is; of several the last.
pub(super) fn content_type(headers: &Headers) -> Option<&str> {
    let (_, value) = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-type")).last()?;
    std::str::from_utf8(value?).ok()
}

/// Data is JSON where nothing else is said.
pub(super) fn is_json(data_content_type: Option<&str>) -> bool {
    let Some(media_type) = data_content_type else { return true };
    let Some((_, subtype)) = essence(media_type).split_once('/') else { return false };
    let suffix = subtype.rsplit_once('+').map_or(subtype, |(_, suffix)| suffix);
    suffix.eq_ignore_ascii_case("json")
}

/// Without parameters.
fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}

fn strip_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_type_says_the_mode() {
        for (content_type, mode) in [
            ("application/json", Mode::Binary),
            ("", Mode::Binary),
            ("application/cloudevent", Mode::Binary),
            ("application/cloudevents+json", Mode::Json),
            (" Application/CloudEvents+JSON ; charset=utf-8", Mode::Json),
            ("application/cloudevents-batch+json", Mode::Batch),
            ("application/cloudevents-batch", Mode::Batch),
            ("application/cloudevents+avro", Mode::Other),
            ("application/cloudevents", Mode::Other),
            ("application/cloudevents+json+x", Mode::Other),
            ("application/cloudevent\u{e9}s", Mode::Binary),
        ] {
            assert_eq!(Mode::of(content_type), mode, "{content_type:?}");
        }
    }

    #[test]
    fn data_is_json_unless_something_else_is_said() {
        for (media_type, json) in [
            (None, true),
            (Some("application/json"), true),
            (Some("text/JSON; charset=utf-8"), true),
            (Some("application/vnd.shop.order+json"), true),
            (Some("text/plain"), false),
            (Some("application/jsonp"), false),
            (Some("json"), false),
            (Some(""), false),
        ] {
            assert_eq!(is_json(media_type), json, "{media_type:?}");
        }
    }
}
